"""Lists of a namespace's topics: always correct, built once, and in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import pytest
import re2

from magnetar.base.limits import Limit
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.loop import slices
from magnetar.broker.topic import topic_lists
from magnetar.broker.topic.topic_lists import TopicList
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import NAMESPACE, Cluster
from magnetar.wire import commands
from magnetar.wire.connection import MAGNETAR_VERSION_PREFIX
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.stored import delete, put
from tests.kit.work import lines_run

if TYPE_CHECKING:
    from magnetar.sim.cluster import Client

MANY = 40


def create(cluster: Cluster, *local_names: str) -> None:
    for name in local_names:
        put(cluster.metadata, managed_ledger_path(TopicName("persistent", "public", "default", name)), b"{}")


def asked(client: Client, pattern: str = "", topics_hash: str = "") -> pb.CommandGetTopicsOfNamespaceResponse:
    client.say(request(pattern, topics_hash))
    (answer,) = client.take("GET_TOPICS_OF_NAMESPACE_RESPONSE")
    assert isinstance(answer, pb.CommandGetTopicsOfNamespaceResponse)
    return answer


def request(pattern: str = "", topics_hash: str = "") -> bytes:
    body = pb.CommandGetTopicsOfNamespace(
        request_id=9, namespace="public/default", topics_pattern=pattern, topics_hash=topics_hash
    )
    return commands.encode(body)


def full(*local_names: str) -> list[str]:
    return [f"persistent://public/default/{name}" for name in local_names]


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_a_list_has_the_names_that_match_and_their_hash(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(topic_lists, "NAMES_AT_ONCE", at_once)
    cluster = Cluster()
    client = cluster.client()
    create(cluster, "a", "b-partition-0", "b-partition-1", "c")
    for pattern, expected in {
        "": full("a", "b-partition-0", "b-partition-1", "c"),
        "public/default/b": full("b-partition-0", "b-partition-1"),
        "public/default/[ac]": full("a", "c"),
        "public/default/none": [],
        "public/default/(": full("a", "b-partition-0", "b-partition-1", "c"),
    }.items():
        answer = asked(client, pattern)
        its_hash = google_crc32c.value(",".join(expected).encode()).to_bytes(4, "little").hex()
        assert list(answer.topics) == expected
        assert (answer.request_id, answer.changed, answer.topics_hash) == (9, True, its_hash)
        assert answer.filtered == (pattern.endswith(("b", "]", "none")))
        again = asked(client, pattern, its_hash)
        assert (list(again.topics), again.changed, again.topics_hash) == ([], False, its_hash)


def test_topics_of_apache_pulsar_are_listed_for_the_pipeline_only() -> None:
    cluster = Cluster()
    own = [
        "__change_events",
        "__change_events-partition-0",
        "__transaction_buffer_snapshot",
        "a-s__transaction_pending_ack",
    ]
    users = ["__mine", "a", "a__change_events"]
    create(cluster, *own, *users)
    client, pipeline = cluster.client(), cluster.client()
    pipeline.session.connection.peer_version = f"{MAGNETAR_VERSION_PREFIX}/1"
    for pattern in ("", "public/default/.*"):
        assert list(asked(client, pattern).topics) == full(*users)
        assert list(asked(pipeline, pattern).topics) == full(*sorted([*own, *users]))
        assert list(asked(client, pattern).topics) == full(*users)


@pytest.mark.parametrize("domain", ["persistent://", "non-persistent://", "^persistent://"])
def test_the_domain_of_a_pattern_is_ignored(domain: str) -> None:
    """Java's clients send the pattern of the application, and take the answer for the complete list of its topics."""
    cluster = Cluster()
    create(cluster, "a", "b-partition-0", "c")
    answer = asked(cluster.client(), f"{domain}public/default/[bc]")
    assert (list(answer.topics), answer.filtered) == (full("b-partition-0", "c"), True)


def test_a_pattern_with_an_unknown_domain_is_left_to_the_client() -> None:
    cluster = Cluster()
    create(cluster, "a")
    answer = asked(cluster.client(), "(persistent|x)://public/default/a")
    assert (list(answer.topics), answer.filtered) == (full("a"), False)


def test_a_list_is_new_once_a_topic_comes_or_goes() -> None:
    cluster = Cluster()
    client = cluster.client()
    create(cluster, "a")
    assert list(asked(client).topics) == full("a")
    create(cluster, "b")
    assert list(asked(client).topics) == full("a", "b")
    delete(cluster.metadata, managed_ledger_path(TopicName("persistent", "public", "default", "a")))
    assert list(asked(client).topics) == full("b")


@pytest.mark.parametrize("pattern", ["", "public/default/.*"])
def test_a_list_that_nothing_changed_is_not_made_again(pattern: str) -> None:
    few, many = Cluster(), Cluster()
    create(few, "0")
    create(many, *map(str, range(2000)))
    work = []
    for cluster in (few, many):
        asked(cluster.client(), pattern)
        find, found = cluster.topics.lists.find, list[object]()
        work.append(lines_run(lambda find=find, found=found: find(NAMESPACE, pattern, found.append)))  # type: ignore[misc]
        assert len(found) == 1
    assert work[0] == work[1]


def test_a_long_list_is_made_in_slices_and_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "NAMES_AT_ONCE", 1)
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    cluster = Cluster()
    create(cluster, *[f"{number:02d}" for number in range(1, MANY)])
    asked(cluster.client())  # reads the names
    create(cluster, "00")
    turns = [0]
    found: list[tuple[int, TopicList]] = []

    def turn() -> None:
        turns[0] += 1
        if len(found) < 4:
            cluster.loop.call_soon(turn)

    def ask() -> None:
        cluster.topics.lists.find(NAMESPACE, "", lambda got: found.append((turns[0], got)))

    def ask_often() -> None:
        ask()
        ask()
        create(cluster, "new")
        ask()
        turn()

    cluster.loop.call_soon(ask_often)
    cluster.loop.call_soon(cluster.loop.call_soon, ask)
    cluster.loop.spin()
    (first_turn, first), (_, second), (last_turn, third), (_, fourth) = found
    assert first_turn >= MANY // 4
    assert last_turn >= 2 * (MANY // 4)
    assert first is second
    assert third is fourth
    assert (b"/new" in first.encoded, b"/new" in third.encoded) == (False, True)


def test_names_are_read_in_slices_and_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    cluster = Cluster()
    create(cluster, *[f"{number:02d}" for number in range(MANY)])
    found: list[TopicList] = []
    turns: list[int] = []

    def turn() -> None:
        turns.append(len(found))
        if len(turns) == 2:
            create(cluster, "new")
            cluster.topics.lists.find(NAMESPACE, "", found.append)
        if not found:
            cluster.loop.call_soon(turn)

    def ask() -> None:
        for pattern in ("", "", "public/default/.*9"):
            cluster.topics.lists.find(NAMESPACE, pattern, found.append)
        turn()

    cluster.loop.call_soon(ask)
    cluster.loop.spin()
    assert len(turns) >= MANY // 4
    first, second, third, matching = found
    assert first is second is third
    assert b"/new" in first.encoded
    assert matching.encoded.count(b"persistent://") == MANY // 10


@pytest.mark.parametrize("pattern", [r"(\pL{30}){30}", "(.?){999}x", "(.*a.{500}){2}", "(.*.*){450}x"])
def test_a_pattern_that_is_large_once_it_is_compiled_is_left_to_the_client(pattern: str) -> None:
    cluster = Cluster()
    create(cluster, "a", "b")
    answer = asked(cluster.client(), pattern)
    assert (list(answer.topics), answer.filtered) == (full("a", "b"), False)


@pytest.mark.parametrize("length", [1, 20, 2000])
def test_a_step_does_not_match_more_characters_the_larger_the_pattern_is(length: int) -> None:
    names = tuple(f"{number:0{length}d}" for number in range(1200))
    for text in (".*", "(.?){30}x", r"\p{Lu}.*"):
        pattern = re2.compile(text)
        steps = list(topic_lists._in_steps(names, pattern))
        assert tuple(name for step in steps for name in step) == names
        for step in steps:
            assert len(step) <= topic_lists.NAMES_AT_ONCE
            before_last = sum(map(len, step[:-1]))
            assert before_last * pattern.programsize < topic_lists.MATCHING_AT_ONCE


def test_patterns_beyond_a_number_at_the_same_time_are_left_to_their_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "PATTERNS_AT_ONCE_MAX", 3)
    monkeypatch.setattr(topic_lists, "NAMES_AT_ONCE", 1)
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 2)
    cluster = Cluster()
    create(cluster, *map(str, range(MANY)))
    found: list[TopicList] = []

    def ask_for_many() -> None:
        for number in range(10):
            cluster.topics.lists.find(NAMESPACE, f"public/default/{number}", found.append)

    cluster.loop.call_soon(ask_for_many)
    cluster.loop.spin()
    assert sorted(made.filtered for made in found) == [False] * 7 + [True] * 3
    assert cluster.environment.limit_hits.counts()[Limit.TOPICS_PATTERNS.value] == 7


def test_lists_stay_in_memory_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "CACHED_BYTES_MAX", 3000)
    cluster = Cluster()
    client = cluster.client()
    create(cluster, *[f"topic-{number}" for number in range(9)])
    for number in range(9):
        assert len(asked(client, f"public/default/topic-[^{number}]").topics) == 8
    lists = cluster.topics.lists
    cached = [topic_lists.CACHED_LIST_BYTES + len(made.encoded) for _, made in lists._made.values()]
    assert lists._bytes == sum(cached) <= 3000
    assert len(cached) == 3
    assert len(asked(client).topics) == 9


def test_lists_without_topics_take_no_memory_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "CACHED_BYTES_MAX", 3000)
    cluster = Cluster()
    lists, found = cluster.topics.lists, list[TopicList]()
    for number in range(100):
        lists.find(NamespaceName("nobody", str(number)), ".*", found.append)
    cluster.loop.spin()
    assert len(lists._made) == 0
    create(cluster, "a")
    for number in range(100):
        lists.find(NAMESPACE, f"{number}", found.append)
    cluster.loop.spin()
    assert len(lists._made) <= 3000 // topic_lists.CACHED_LIST_BYTES
    assert [made.encoded for made in found] == [b""] * 200
