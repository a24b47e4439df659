"""Links that have nothing to carry rest without a holder, and are due as soon as there is something."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import ServerError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.replication.outbound.marker_queue import QueuedMarker
from magnetar.broker.replication.outbound.rest import LinkRest
from magnetar.broker.replication.reports import REPORT_INTERVAL_S, REPORTED_AT_ONCE
from magnetar.broker.settings.config import BrokerConfig
from magnetar.geo import losses
from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.entries.markers import SNAPSHOT_REQUEST, build_marker, snapshot_request
from magnetar.wire.links import LINK_BUCKETS, link_bucket
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest

NAME = str(TOPIC)

REST_S = BrokerConfig(clusterName="ewr").replicationRestAfterMs / 1000


class RestingScenario:
    """A source with one topic, its target, and the pipe between them."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.source = Cluster("ewr", targets=["jfk"], loop=self.loop)
        self.target = Cluster("jfk", targets=["ewr"], loop=self.loop)
        self.publisher = self.source.client()
        self.publisher.produce()
        self.pipe = Pipe(self.source, self.target)
        self.carrier = self.carries()

    def carries(
        self, lease: int = 1, pipeline: str = "a", state: str = "run:0", buckets: Collection[int] = ()
    ) -> Client:
        """Let a task carry the links; return its connection."""
        carrier = self.source.client()
        self.report(carrier, lease, pipeline, state, buckets=buckets)
        return carrier

    def report(
        self, carrier: Client, lease: int, pipeline: str, state: str, *lost: str, buckets: Collection[int] = ()
    ) -> None:
        command = pb.CommandCarryLinks(
            request_id=carrier.request_id(),
            target="jfk",
            lease=lease,
            pipeline=pipeline,
            target_state=state,
            lost=lost,
            buckets=buckets,
        )
        carrier.say(commands.encode(command))
        self.source.settle()

    def due(self, carrier: Client | None = None) -> list[str]:
        """Return the topics of the links that were reported as due since the last call."""
        self.source.settle()
        return [name for report in (carrier or self.carrier).take("LINKS_DUE") for name in report.topics]

    def attach(self) -> None:
        self.pipe.attach(seek=False, permits=1000)
        self.carry()

    def carry(self) -> None:
        self.pipe.read()
        self.pipe.run()

    def rest(self) -> bool:
        """Pass the time after which the link rests if it may; return whether the holder was told so."""
        self.pass_time()
        return any(closed.rests for closed in self.pipe.reader.take("CLOSE_CONSUMER"))

    def pass_time(self, seconds: float = REST_S * 1.5) -> None:
        for _ in range(10):
            self.loop.advance(seconds / 10)
            self.source.settle()

    @property
    def is_resting(self) -> bool:
        return self.source.topic().replicators["jfk"].rest.is_active

    def stats(self) -> tuple[bool, str | None, int | None]:
        """Return what REST reports of the link: connected, the pipeline, and the backlog."""
        stats = topic_stats(self.source.topic(), StatsOptions()).replication["jfk"]
        return stats.connected, stats.pipeline, stats.replication_backlog


def rested() -> RestingScenario:
    """Return a scenario in which the link rests after one message."""
    scenario = RestingScenario()
    scenario.publisher.send("a")
    scenario.attach()
    scenario.due()
    assert scenario.rest()
    assert scenario.is_resting
    return scenario


def test_a_resting_link_counts_as_carried_and_its_target_as_known() -> None:
    scenario = rested()
    assert scenario.due() == []
    assert scenario.stats() == (True, "a", 0)
    assert scenario.source.topic().replicators["jfk"].lag.uncarried_since is None


def test_a_message_makes_a_resting_link_due() -> None:
    scenario = rested()
    scenario.publisher.send("b", first=1)
    assert scenario.due() == [NAME]
    scenario.attach()
    assert read_all(scenario.target) == ["a", "b"]
    assert scenario.stats()[2] == 0


def test_replicated_messages_do_not_make_a_resting_link_due() -> None:
    scenario = rested()
    back = Pipe(scenario.target, scenario.source)
    other = scenario.target.client()
    other.produce()
    other.send("x")
    back.attach()
    back.read()
    back.run()
    assert read_all(scenario.source) == ["a", "x"]
    assert scenario.due() == []
    assert scenario.source.topic().replicators["jfk"].cursor.state.mark_delete_position.entry_id == 1


def test_a_link_with_unconfirmed_entries_does_not_rest() -> None:
    scenario = RestingScenario()
    scenario.attach()
    scenario.publisher.send("a")
    assert not scenario.rest()
    scenario.carry()
    assert scenario.rest()


def test_a_link_with_a_marker_on_its_way_does_not_rest() -> None:
    scenario = rested()
    link = scenario.source.topic().replicators["jfk"]
    request = build_marker(SNAPSHOT_REQUEST, snapshot_request("id", "ewr"), publish_time_ms=0)
    scenario.source.do(lambda: link.send_marker(QueuedMarker(request, EARLIEST)))
    assert scenario.due() == [NAME]
    scenario.attach()
    scenario.source.do(lambda: link.send_marker(QueuedMarker(request, EARLIEST)))
    scenario.pipe.read()
    assert not scenario.rest()
    scenario.pipe.run()
    assert scenario.rest()


def test_a_link_whose_target_was_not_verified_does_not_rest() -> None:
    scenario = rested()
    scenario.report(scenario.carrier, 1, "a", "run:1")
    scenario.pipe.attach(seek=False, permits=1)
    assert not scenario.rest()
    scenario.attach()
    assert scenario.rest()


def test_a_link_rests_after_a_time_without_entries() -> None:
    scenario = RestingScenario()
    scenario.attach()
    for number in range(5):
        scenario.pass_time(REST_S * 0.7)
        scenario.publisher.send("a", first=number)
        scenario.carry()
        assert not scenario.is_resting
    assert scenario.rest()


def test_only_links_with_a_holder_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = RestingScenario()
    for number in range(3):
        name = TopicName("persistent", TOPIC.tenant, TOPIC.namespace, f"t{number}")
        scenario.source.do(lambda name=name: scenario.source.topics.create(name))  # type: ignore[misc]
    looked_at: set[str] = set()
    check = LinkRest.check

    def checked(rest: LinkRest, idle_s: float) -> None:
        looked_at.add(str(rest.topic_name))
        check(rest, idle_s)

    monkeypatch.setattr(LinkRest, "check", checked)
    scenario.attach()
    scenario.pass_time(REST_S * 0.5)
    assert looked_at == {NAME}
    scenario.pipe.reader.leave()
    scenario.pass_time(REST_S * 0.5)
    looked_at.clear()
    scenario.pass_time(REST_S * 0.5)
    assert not looked_at


def test_links_do_not_rest_if_the_broker_is_configured_so() -> None:
    scenario = RestingScenario()
    config = scenario.source.environment.config
    scenario.source.environment.reconfigure(config.model_copy(update={"replicationRestAfterMs": 0}))
    scenario.attach()
    assert not scenario.rest()
    scenario.source.environment.reconfigure(config)
    scenario.pass_time()
    assert scenario.rest()


def test_no_link_rests_without_a_carrier_that_knows_the_target() -> None:
    scenario = RestingScenario()
    scenario.report(scenario.carrier, 1, "a", "")
    scenario.attach()
    assert not scenario.rest()
    scenario.carrier.leave()
    scenario.attach()
    assert not scenario.rest()


def test_a_new_carrier_gets_only_the_links_that_do_not_rest() -> None:
    scenario = rested()
    other = TopicName("persistent", TOPIC.tenant, TOPIC.namespace, "other")
    scenario.source.do(lambda: scenario.source.topics.create(other))
    assert scenario.due() == [str(other)]
    successor = scenario.carries(lease=2)
    assert scenario.due(successor) == [str(other)]
    assert [report.superseded for report in scenario.carrier.take("LINKS_DUE")] == [True]
    scenario.publisher.send("b", first=1)
    assert (scenario.due(), scenario.due(successor)) == ([], [NAME])


def test_the_end_of_a_carrier_makes_the_target_unknown() -> None:
    scenario = rested()
    scenario.carrier.leave()
    scenario.source.settle()
    assert scenario.stats() == (False, None, None)
    assert scenario.due(scenario.carries()) == [NAME]


def test_the_end_of_an_earlier_carrier_changes_nothing() -> None:
    scenario = rested()
    scenario.carries(lease=2, pipeline="a")
    scenario.carrier.leave()
    scenario.source.settle()
    assert scenario.stats() == (True, "a", 0)


def test_a_target_in_another_state_may_have_lost_anything() -> None:
    scenario = rested()
    successor = scenario.carries(lease=2, state="run:1")
    assert scenario.due(successor) == [NAME]
    assert scenario.stats()[2] is None
    scenario.attach()
    assert scenario.stats()[2] == 0


def test_a_target_that_is_not_connected_makes_its_content_unknown() -> None:
    scenario = rested()
    scenario.report(scenario.carrier, 1, "a", "")
    assert scenario.stats() == (False, None, None)
    assert scenario.due() == [NAME]


def test_a_lost_topic_makes_only_its_own_link_due() -> None:
    scenario = rested()
    scenario.report(scenario.carrier, 1, "a", "run:1", "persistent://public/default/other", "no topic")
    assert (scenario.is_resting, scenario.due()) == (True, [])
    scenario.report(scenario.carrier, 1, "a", "run:2", NAME)
    assert scenario.due() == [NAME]
    assert scenario.stats()[2] is None
    successor = scenario.carries(lease=2, state="run:2")
    assert scenario.due(successor) == [NAME]


def test_losses_without_names_may_concern_any_topic() -> None:
    scenario = rested()
    scenario.report(scenario.carrier, 1, "a", "run:5000")
    assert scenario.due() == [NAME]


def test_the_newest_lease_carries_the_links() -> None:
    scenario = rested()
    scenario.carries(lease=3, pipeline="b")
    late, rival, same = scenario.source.client(), scenario.source.client(), scenario.source.client()
    scenario.report(late, 2, "b", "run:0")
    scenario.report(rival, 3, "a", "run:0")
    scenario.report(same, 3, "b", "run:0")
    refused = [(error.link_refusal, error.link_holder) for error in (*late.take("ERROR"), *rival.take("ERROR"))]
    assert refused == [(pb.LinkOfNewerLease, ""), (pb.LinkOfOtherPipeline, "b")]
    assert same.names()[0] == "SUCCESS"


def test_a_superseded_carrier_does_not_come_back() -> None:
    scenario = rested()
    scenario.carries(lease=1, pipeline="a")  # Spark runs the task again
    scenario.report(scenario.carrier, 1, "a", "run:1", NAME)
    assert [error.link_refusal for error in scenario.carrier.take("ERROR")] == [pb.LinkOfNewerLease]
    assert scenario.is_resting


def test_a_connection_carries_the_links_of_one_lease() -> None:
    scenario = rested()
    scenario.report(scenario.carrier, 2, "a", "run:0")
    (error,) = scenario.carrier.take("ERROR")
    assert error.error == ServerError.NotAllowedError
    assert "for lease 1" in error.message


def test_many_due_links_are_reported_in_parts_and_those_with_a_backlog_first() -> None:
    scenario = RestingScenario()
    count = 2 * REPORTED_AT_ONCE
    names = [TopicName("persistent", TOPIC.tenant, TOPIC.namespace, f"t{number}") for number in range(count)]
    for name in names:
        scenario.source.do(lambda name=name: scenario.source.topics.create(name))  # type: ignore[misc]
    scenario.publisher.send("a")
    scenario.due()
    successor = scenario.carries(lease=2)
    scenario.source.settle()
    parts = [list(report.topics) for report in successor.take("LINKS_DUE")]
    assert sorted(chain.from_iterable(parts)) == sorted([NAME, *map(str, names)])
    assert max(map(len, parts)) <= REPORTED_AT_ONCE
    assert NAME in parts[0]


def watching(cluster: Cluster) -> Client:
    client = cluster.client()
    client.say(commands.watch_losses(request_id=7))
    return client


def reports(client: Client) -> list[tuple[str, list[str]]]:
    client.cluster.settle()
    client.cluster.loop.advance(2 * REPORT_INTERVAL_S)
    return [(report.state, list(report.topics)) for report in client.take("TOPICS_LOST")]


def test_a_deleted_topic_is_reported_as_lost() -> None:
    cluster = Cluster(targets=["jfk"])
    cluster.topic()
    client = watching(cluster)
    ((state, topics),) = reports(client)
    assert topics == []
    cluster.delete(TOPIC)
    ((after, topics),) = reports(client)
    assert topics == [NAME]
    assert after != state
    ((present, topics),) = reports(watching(cluster))
    assert (present, topics) == (after, [])


def test_a_start_of_the_broker_changes_the_state() -> None:
    cluster = Cluster(targets=["jfk"])
    ((before, _),) = reports(watching(cluster))
    cluster.loop.advance(1)
    cluster.crash()
    ((after, _),) = reports(watching(cluster))
    assert after != before


def test_too_many_losses_are_reported_without_names() -> None:
    cluster = Cluster(targets=["jfk"])
    client = watching(cluster)
    reports(client)
    for number in range(losses.REPORTED_MAX + 1):
        cluster.environment.losses.note(TopicName("persistent", "public", "default", f"t{number}"))
    ((state, topics),) = reports(client)
    assert topics == []
    assert state.endswith(f":{losses.REPORTED_MAX + 1}")


def test_a_connection_watches_losses_once() -> None:
    cluster = Cluster(targets=["jfk"])
    client = watching(cluster)
    client.say(commands.watch_losses(request_id=8))
    assert [error.error for error in client.take("ERROR")] == [ServerError.NotAllowedError]


OWN = [link_bucket(NAME)]
"""The bucket of the topic."""

OTHERS = [bucket for bucket in range(LINK_BUCKETS) if bucket not in OWN]


def test_a_due_link_is_reported_to_the_carrier_of_its_bucket() -> None:
    scenario = rested()
    others, own = scenario.carries(lease=2, buckets=OTHERS), scenario.carries(lease=2, buckets=OWN)
    assert [report.superseded for report in scenario.carrier.take("LINKS_DUE")] == [True]
    assert scenario.is_resting, "the state of the target is the same"
    scenario.publisher.send("b", first=1)
    assert (scenario.due(others), scenario.due(own), scenario.due()) == ([], [NAME], [])
    assert scenario.stats()[1] == "a"


def test_a_carrier_is_superseded_when_it_has_lost_all_its_buckets() -> None:
    scenario = rested()
    scenario.carries(lease=2, buckets=OTHERS)
    assert scenario.carrier.take("LINKS_DUE") == []
    scenario.publisher.send("b", first=1)
    assert scenario.due() == [NAME], "it still has this bucket"
    scenario.carries(lease=2, buckets=OWN)
    assert [report.superseded for report in scenario.carrier.take("LINKS_DUE")] == [True]


def test_the_end_of_a_carrier_concerns_its_buckets_only() -> None:
    scenario = rested()
    others, own = scenario.carries(lease=2, buckets=OTHERS), scenario.carries(lease=2, buckets=OWN)
    others.leave()
    scenario.source.settle()
    assert scenario.stats() == (True, "a", 0)
    own.leave()
    scenario.source.settle()
    assert scenario.stats() == (False, None, None)


def test_a_carrier_reports_the_target_for_the_buckets_that_it_has_kept() -> None:
    scenario = rested()
    scenario.carries(lease=2, buckets=OWN)
    scenario.report(scenario.carrier, 1, "a", "run:9")
    assert scenario.stats() == (True, "a", 0), "the state is that of the new carrier"
    scenario.report(scenario.carrier, 1, "a", "")
    assert scenario.is_resting


def test_topics_that_the_target_lost_count_if_the_carrier_of_the_bucket_reports_them() -> None:
    scenario = rested()
    others, own = scenario.carries(lease=2, buckets=OTHERS), scenario.carries(lease=2, buckets=OWN)
    scenario.report(others, 2, "a", "run:1", NAME, buckets=OTHERS)
    assert scenario.is_resting
    scenario.report(own, 2, "a", "run:1", NAME, buckets=OWN)
    assert not scenario.is_resting
    assert scenario.due(own) == [NAME]
    assert scenario.stats() == (False, None, None)


def test_other_buckets_on_the_same_connection_and_unknown_ones_are_refused() -> None:
    scenario = RestingScenario()
    scenario.report(scenario.carrier, 1, "a", "run:0", buckets=OWN)
    carrier = scenario.carries(lease=2, buckets=[LINK_BUCKETS])
    for client in (scenario.carrier, carrier):
        (refusal,) = client.take("ERROR")
        assert refusal.error == ServerError.NotAllowedError
    assert refusal.message == f"bucket {LINK_BUCKETS}: links have {LINK_BUCKETS} buckets"
