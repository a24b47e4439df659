"""A topic with damaged data refuses its own clients without affecting others."""

from __future__ import annotations

import asyncio
import errno
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from magnetar.admin.topic_service import StatsOptions
from magnetar.base import errors
from magnetar.base.errors import AdminError, MagnetarError, RemoteProtocolError, ServerError, StorageError
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.broker.admin.administration import Administration
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.session.refusals import REFUSED
from magnetar.broker.topic.load_failures import LOAD_RETRY_DELAY_S, WAY_OUT
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import Put
from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEALTHY = TopicName.parse("persistent://public/default/healthy")


def shorten_log(cluster: Cluster) -> None:
    """Remove the newest entry, which is durable according to the ledger list."""
    topic = cluster.topic()
    cluster.do(lambda: topic.ledger.set_property("x", "y"))
    ledger = cluster.store.ledgers[topic.ledger.ledgers()[0].ledger_id]
    cluster.crash()
    ledger.entries.pop()
    ledger.runs.pop()
    ledger.length -= 1


def load_all(cluster: Cluster) -> int:
    linked = cluster.topics.linked
    loading: asyncio.Task[int] = cluster.do(lambda: cluster.loop.create_task(linked.load_all()))
    return loading.result()


def overwrite(cluster: Cluster, path: str, value: bytes) -> None:
    cluster.crash()
    commit_at_start(cluster.metadata, [Put(path, value, None)])


def property_of(name: str, value: str) -> Callable[[Cluster], None]:
    def damage(cluster: Cluster) -> None:
        topic = cluster.topic()
        cluster.do(lambda: topic.ledger.set_property(name, value))
        cluster.crash()

    return damage


def damage_cursor_record(cluster: Cluster) -> None:
    """Append an invalid record to a cursor's ledger."""
    cursor = cluster.subscription().cursor
    cluster.do(lambda: cluster.store.append(cursor.ledger_id or 0, (b"",), lambda _: None, b"no record"))
    cluster.crash()


DAMAGES: dict[str, Callable[[Cluster], None]] = {
    "the log is shorter than what was durable": shorten_log,
    "the list of ledgers is no JSON": lambda cluster: overwrite(cluster, managed_ledger_path(TOPIC), b"{"),
    "the list of ledgers lacks a field": lambda cluster: overwrite(cluster, managed_ledger_path(TOPIC), b"{}"),
    "a cursor's value is no JSON": lambda cluster: overwrite(
        cluster, f"{managed_ledger_path(TOPIC)}/cursors/worker", b"["
    ),
    "a cursor's value lacks a field": lambda cluster: overwrite(
        cluster, f"{managed_ledger_path(TOPIC)}/cursors/worker", b"{}"
    ),
    "a cursor's record cannot be read": damage_cursor_record,
    "the epoch is no number": property_of("pulsar.topic.epoch", "x"),
    "the origins are no JSON": property_of("magnetar.origins", "{"),
    "the returned entries are no JSON": property_of("magnetar.returned", "{"),
    "the former cluster is no JSON": property_of("magnetar.former", "{"),
    "the migration fence is no JSON": property_of("magnetar.migration-fence", "{"),
    "the tombstones are no JSON": property_of("magnetar.tombstones", "{"),
}


@pytest.fixture(params=DAMAGES)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """A replicated namespace with a healthy topic and one that was damaged while the broker was down."""
    cluster = Cluster(targets=("jfk",))
    cluster.topic(HEALTHY)
    client = cluster.client()
    client.produce()
    client.send(*map(str, range(10)))
    client.subscribe(permits=0)
    cluster.settle()
    DAMAGES[request.param](cluster)
    return cluster


def bug(*_args: object, **_options: object) -> None:
    """Raise an unexpected error."""
    message = "a bug"
    raise ValueError(message)


def refusals(client: Client) -> list[tuple[ServerError, str]]:
    return [(ServerError(each.error), each.message) for each in client.take("ERROR")]


def test_the_others_are_loaded_at_the_start(cluster: Cluster) -> None:
    assert load_all(cluster) == 1
    assert list(cluster.topics.loaded) == [HEALTHY]
    assert not cluster.loop.problems


def test_clients_hear_at_once_what_is_wrong_and_their_connection_stands(cluster: Cluster) -> None:
    client = cluster.client()
    client.produce()
    client.subscribe(permits=0)
    answers = refusals(client)
    assert [code for code, _ in answers] == [ServerError.NotAllowedError] * 2, "official clients report this one"
    for _, message in answers:
        assert str(TOPIC) in message
        assert "magnetar check --repair" in message
    client.topic = HEALTHY
    client.produce(producer_id=2)
    client.send("a", producer_id=2)
    assert client.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT"]
    assert not client.disconnected


def test_links_hear_a_code_that_they_retry(cluster: Cluster) -> None:
    for name in ("pulsar.repl.jfk-->ewr", "magnetar.progress.jfk"):
        client = cluster.client()
        client.produce(name=name)
        assert [code for code, _ in refusals(client)] == [ServerError.PersistenceError]


def test_it_is_logged_once_however_often_clients_retry(cluster: Cluster) -> None:
    with capture_logs() as logs:
        for _ in range(5):
            client = cluster.client()
            client.produce()
            assert len(refusals(client)) == 1
            cluster.loop.advance(LOAD_RETRY_DELAY_S + 0.1)
    assert [each["topic"] for each in logs if each["event"] == "topic_load_failed"] == [str(TOPIC)]
    assert list(cluster.topics.load_failures.reasons) == [TOPIC]


def test_nothing_of_it_is_left_running(cluster: Cluster) -> None:
    client = cluster.client()
    client.produce()
    client.leave()
    assert not asyncio.all_tasks(cluster.loop)
    assert not cluster.delayed.users


def test_rest_names_the_reason_and_answers_for_the_others(cluster: Cluster) -> None:
    administration = Administration(cluster.environment, cluster.domains, "")
    options = StatsOptions()
    task = cluster.loop.start(administration.topics.stats(TOPIC, options))
    error = task.exception()
    assert isinstance(error, AdminError)
    assert error.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert str(TOPIC) in str(error)
    assert cluster.loop.start(administration.topics.stats(HEALTHY, options)).exception() is None
    cluster.prompt = True
    healthy = cluster.loop.start(administration.health())
    cluster.settle()
    assert healthy.exception() is None
    assert str(TOPIC) in administration.load_failures()[TOPIC]


def test_an_operator_deletes_it_with_force_and_its_name_is_free_for_a_new_one(cluster: Cluster) -> None:
    administration = Administration(cluster.environment, cluster.domains, "")
    refused = cluster.loop.start(administration.topics.delete(TOPIC, force=False)).exception()
    assert isinstance(refused, AdminError)
    assert refused.status == HTTPStatus.PRECONDITION_FAILED
    assert "unknown whether it is in use" in str(refused)
    assert cluster.topics.exists(TOPIC)
    assert cluster.loop.start(administration.topics.delete(TOPIC, force=True)).exception() is None
    cluster.settle()
    root = managed_ledger_path(TOPIC)
    assert cluster.metadata.get(root) is None
    assert cluster.metadata.children(f"{root}/cursors") == []
    assert TOPIC not in administration.load_failures()
    client = cluster.client()
    client.produce()
    client.send("a")
    cluster.settle()
    client.subscribe()
    cluster.settle()
    assert cluster.topic().ledger.entries == 1, "nothing of the deleted topic is left"
    assert cluster.subscription().backlog == len(client.take("MESSAGE")) == 1
    cluster.crash()
    assert cluster.topic().ledger.entries == 1


def test_the_deletion_of_a_topic_whose_cursor_names_a_ledger_of_another_one_leaves_that_ledger() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.topic = HEALTHY
    client.produce()
    client.send("a")
    client.topic = TOPIC
    client.subscribe()
    (ledger,) = cluster.topic(HEALTHY).ledger.ledgers()
    damaged = {"cursorsLedgerId": ledger.ledger_id, "markDeletePosition": "-1:-1", "cursorProperties": {}}
    overwrite(cluster, f"{managed_ledger_path(TOPIC)}/cursors/worker", json.dumps(damaged).encode())
    cluster.crash()
    administration = Administration(cluster.environment, cluster.domains, "")
    assert cluster.loop.start(administration.topics.delete(TOPIC, force=True)).exception() is None
    cluster.settle()
    assert not cluster.topics.exists(TOPIC)
    cluster.crash()
    assert cluster.topic(HEALTHY).ledger.entries == 1


@pytest.mark.parametrize("record", ["", "/cursors/worker"])
def test_a_deletion_says_what_it_could_not_find(record: str) -> None:
    cluster = Cluster()
    cluster.client().subscribe()
    path = f"{managed_ledger_path(TOPIC)}{record}"
    overwrite(cluster, path, b"{")
    with capture_logs() as logs:
        cluster.do(lambda: cluster.delete(TOPIC))
    (said,) = [each for each in logs if each["event"] == "damaged_topic_deleted"]
    assert said["ledgers_unknown_of"] == [path]


def test_a_change_of_policies_reaches_the_others(cluster: Cluster) -> None:
    load_all(cluster)
    cluster.replicate_to("jfk", "sfo")
    assert set(cluster.topics.loaded[HEALTHY].replicators) == {"jfk", "sfo"}


def test_a_replicated_topic_that_was_repaired_is_loaded_without_a_client() -> None:
    cluster = Cluster(targets=("jfk",))
    cluster.topic()
    path = managed_ledger_path(TOPIC)
    stored = cluster.metadata.get(path)
    assert stored is not None
    overwrite(cluster, path, b"{")
    load_all(cluster)
    assert TOPIC not in cluster.topics.loaded
    commit_at_start(cluster.metadata, [Put(path, stored.value, None)])
    cluster.loop.advance(LOAD_RETRY_DELAY_S + 0.1)
    cluster.loop.start(Maintenance(cluster.environment, cluster.topics).retry_loading())
    assert TOPIC in cluster.topics.loaded
    assert not cluster.topics.load_failures.reasons


def test_a_namespace_whose_policies_cannot_be_read_concerns_nobody_else() -> None:
    cluster = Cluster(targets=("jfk",))
    cluster.topic()
    cluster.crash()
    commit_at_start(cluster.metadata, [Put("/admin/policies/public/bad", b'{"replication_clusters": 7}', None)])
    assert load_all(cluster) == 1
    client = cluster.client()
    client.topic = TopicName.parse("persistent://public/bad/orders")
    client.say(commands.lookup(topic=str(client.topic), request_id=7))
    (answer,) = client.take("LOOKUP_RESPONSE")
    assert (answer.request_id, answer.error) == (7, pb.PersistenceError)
    client.produce()
    assert [code for code, _ in refusals(client)] == [ServerError.PersistenceError]
    assert not client.disconnected


def test_a_topic_that_cannot_follow_new_policies_starts_over_and_the_others_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    broken, healthy = cluster.topic(), cluster.topic(HEALTHY)

    def fail() -> None:
        message = "no space left"
        raise StorageError(message)

    monkeypatch.setattr(broken, "apply_policies", fail)
    cluster.replicate_to("jfk")
    assert list(healthy.replicators) == ["jfk"]
    assert list(cluster.topic().replicators) == ["jfk"]
    assert cluster.topic() is not broken


# -- all classes of errors --------------------------------------------------------------------------------------------


def all_errors(kind: type[MagnetarError] = MagnetarError) -> Iterator[type[MagnetarError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from all_errors(each)


ARGUMENTS: dict[type[MagnetarError], tuple[Any, ...]] = {
    errors.AdminError: (HTTPStatus.CONFLICT, "why"),
    errors.DamagedEntriesError: ("why", 1, 0, 1),
    errors.InterruptedMigrationError: (),
    errors.LinkGapError: ("why", "ewr", Position(1, 2)),
}


HAVE_A_CODE = (errors.InvalidTopicNameError, errors.SchemaError)
"""Errors of requests with a code of their own."""


def example(kind: type[MagnetarError]) -> MagnetarError:
    if kind in ARGUMENTS:
        return kind(*ARGUMENTS[kind])
    if issubclass(kind, errors.RequestError) and not issubclass(kind, HAVE_A_CODE):
        return kind(ServerError.ServiceNotReady, "why")
    return kind("why")


@pytest.mark.parametrize("kind", list(all_errors()), ids=lambda kind: kind.__name__)
def test_every_error_of_a_request_is_answered_or_is_the_peers_fault(
    kind: type[MagnetarError], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    error = example(kind)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(cluster.topics, "get_or_create", fail)
    monkeypatch.setattr(cluster.topics, "get", fail)
    client = cluster.client()
    if isinstance(error, RemoteProtocolError):
        with pytest.raises(AssertionError):
            client.produce()
        assert [each["exception"] for each in cluster.loop.problems] == [error], "the server drops the connection"
        return
    client.produce()
    client.subscribe(permits=0)
    assert len(client.take("ERROR")) == 2
    reported = [] if isinstance(error, REFUSED) else [error, error]
    assert [each["exception"] for each in cluster.loop.problems] == reported


@pytest.mark.parametrize("kind", list(all_errors(StorageError)), ids=lambda kind: kind.__name__)
def test_storage_that_fails_while_a_topic_is_loaded_concerns_that_topic(
    kind: type[MagnetarError], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(targets=("jfk",))
    cluster.topic()
    cluster.topic(HEALTHY)
    cluster.crash()
    load = cluster.store.length

    def fail(ledger_id: int) -> int:
        if ledger_id == 1:
            raise example(kind)
        return load(ledger_id)

    monkeypatch.setattr(cluster.store, "length", fail)
    load_all(cluster)
    assert HEALTHY in cluster.topics.loaded
    assert not cluster.loop.problems


def test_a_request_that_meets_a_bug_is_answered_and_the_connection_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(cluster.topics, "partitions_for_client", bug)
    monkeypatch.setattr(cluster.topics, "get_or_create", bug)
    client = cluster.client()
    client.produce()
    assert [code for code, _ in refusals(client)] == [ServerError.UnknownError]
    assert [str(each["exception"]) for each in cluster.loop.problems] == ["a bug"], "the simulator sees it"


def test_one_producer_that_cannot_be_removed_leaves_no_other_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce(producer_id=1, name="first")
    client.topic = HEALTHY
    client.produce(producer_id=2, name="second")
    client.subscribe()
    monkeypatch.setattr(cluster.topic().producers, "remove", bug)
    client.leave()
    assert not cluster.topic(HEALTHY).producers
    assert not cluster.topic(HEALTHY).subscriptions["worker"].consumers


def test_a_system_without_descriptors_is_no_damage() -> None:
    cluster = Cluster()
    refusal = cluster.topics.load_failures.failed(TOPIC, OSError(errno.EMFILE, "Too many open files"))
    assert refusal.code is ServerError.PersistenceError, "clients come again"
    assert WAY_OUT not in str(refusal)
