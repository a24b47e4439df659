"""A link that stopped at damaged entries skips exactly those that an operator names."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from structlog.testing import capture_logs

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import AdminError, RequestError
from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.admin.administration import Administration
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.log.skipped_entries import SKIPPED_RANGES_MAX, SkippedEntries
from magnetar.cursor.ranges import Range
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.sim.pipe import Pipe
from tests.unit.broker.mesh import Mesh

TEXTS = ["a", "b", "c", "d", "e"]
RETRY_S = 2.0


class Damaged(Mesh):
    """Two clusters; ``ewr`` published five entries that are only on its disk, some of them damaged."""

    def __init__(self, *damaged: str) -> None:
        super().__init__("ewr", "jfk", settings={})
        self.source, self.target = self.clusters["ewr"], self.clusters["jfk"]
        self.pipes["ewr", "jfk"].reader.leave()
        for text in TEXTS:
            self.publish("ewr", text)
        self.source.settle()
        self.positions = dict(zip(TEXTS, self.texts("ewr"), strict=True))
        self.source.store.damaged = {entry(text) for text in damaged}
        self.source.store.cached = False
        self.attach()

    def attach(self, *, seek: bool = True) -> None:
        pipe = self.pipes["ewr", "jfk"] = Pipe(self.source, self.target)
        pipe.attach(permits=1000, seek=seek)
        self.proceed()

    def proceed(self) -> None:
        for _ in range(4):
            self.carry()
            self.loop.advance(RETRY_S)

    def rebuild_target(self) -> None:
        """Remove the target's data, and make the link resend everything."""
        self.target.do(lambda: self.target.delete(TOPIC))
        self.target.topic()
        self.attach()
        replicator = self.source.topic().replicators["jfk"]
        self.source.do(lambda: replicator.send_again_after(EARLIEST))
        self.proceed()
        self.attach()

    def arrived(self) -> list[str]:
        return list(self.texts("jfk").values())

    def stopped_at(self) -> Position | None:
        return self.source.topic().replicators["jfk"].own.damaged_at

    def skip(self, through: str) -> None:
        replicator, position = self.source.topic().replicators["jfk"], self.positions[through]
        self.source.do(lambda: replicator.own.skip_damaged(position, lambda _: None))
        self.proceed()


def test_the_rest_arrives_and_the_damaged_entry_does_not() -> None:
    network = Damaged("c")
    assert network.stopped_at() == network.positions["c"]
    assert network.arrived() == ["a", "b"]
    with capture_logs() as logs:
        network.skip("c")
    assert network.arrived() == ["a", "b", "d", "e"]
    assert network.stopped_at() is None
    (line,) = [each for each in logs if each["event"] == "damaged_entries_skipped"]
    assert (line["target"], line["first"]) == ("jfk", str(network.positions["c"]))
    stats = topic_stats(network.source.topic(), StatsOptions()).replication["jfk"]
    assert (stats.skipped_entries, stats.skipped_ranges) == (1, [f"{network.positions['c']}..{network.positions['c']}"])
    assert stats.replication_backlog == 0


@pytest.mark.parametrize("damaged", [["a"], ["e"], ["b", "c"], TEXTS], ids=["first", "last", "two", "all"])
def test_wherever_the_damage_is(damaged: list[str]) -> None:
    network = Damaged(*damaged)
    assert network.stopped_at() == network.positions[damaged[0]]
    network.skip(damaged[-1])
    assert network.arrived() == [text for text in TEXTS if text not in damaged]
    network.publish("ewr", "f")
    network.source.store.cached = True
    network.proceed()
    assert network.arrived()[-1] == "f"


def test_only_the_named_entries_are_skipped() -> None:
    network = Damaged("b", "c")
    network.skip("b")
    assert network.stopped_at() == network.positions["c"]
    assert network.arrived() == ["a"]
    network.skip("c")
    assert network.arrived() == ["a", "d", "e"]


@pytest.mark.parametrize("through", ["a", "c", "e"])
def test_an_entry_that_can_be_read_is_not_skipped(through: str) -> None:
    network = Damaged("b")
    replicator, position = network.source.topic().replicators["jfk"], network.positions[through]
    with pytest.raises(RequestError, match="has stopped at"):
        replicator.own.skip_damaged(position, lambda _: None)
    assert network.arrived() == ["a"]


def test_a_link_that_has_not_stopped_skips_nothing() -> None:
    network = Damaged()
    with pytest.raises(RequestError, match="has not stopped"):
        network.source.topic().replicators["jfk"].own.skip_damaged(network.positions["c"], lambda _: None)


def test_skipped_entries_are_not_claimed() -> None:
    network = Damaged("c")
    network.skip("c")
    consumer = network.subscribe("jfk")
    consumer.ack(*network.texts("jfk"))
    network.proceed()
    cluster = network.target
    state = cluster.subscription().shared_progress
    assert state is not None
    claimed = cluster.topic().log.index.claims([Range(*list(network.texts("jfk"))[2:3] * 2)])
    assert [(each.cluster, each.lower) for each in claimed] == [("ewr", network.positions["c"])]


@pytest.mark.parametrize("seek", [True, False])
def test_it_holds_after_a_restart_of_the_source(seek: bool) -> None:
    network = Damaged("c")
    network.skip("c")
    network.source.crash()
    network.attach(seek=seek)
    network.source.store.cached = True
    network.publish("ewr", "f")
    network.proceed()
    assert network.arrived() == ["a", "b", "d", "e", "f"]


def test_a_target_that_lost_its_disk_gets_all_the_others_again() -> None:
    network = Damaged("c")
    network.skip("c")
    network.rebuild_target()
    assert network.arrived() == ["a", "b", "d", "e"]


def test_an_entry_that_can_be_read_again_is_sent_although_it_was_skipped() -> None:
    network = Damaged("c")
    network.skip("c")
    network.source.store.damaged.clear()
    network.rebuild_target()
    assert network.arrived() == TEXTS


def test_a_read_that_fails_after_the_link_went_back_stops_nothing() -> None:
    network = Damaged("d")
    replicator = network.source.topic().replicators["jfk"]
    replicator.own.damaged_at = None
    network.source.loop.call_soon(replicator.dispatch)
    network.source.loop.call_soon(replicator.send_again_after, network.positions["a"])
    network.source.loop.spin()
    network.proceed()
    assert network.stopped_at() == network.positions["d"], "found again by the link itself, once it came to it"
    assert network.arrived() == ["a", "b", "c"]


def test_rest_refuses_with_the_reason() -> None:
    network = Damaged("c")
    administration = Administration(network.source.environment, network.source.domains, "")
    for cluster, place in (("jfk", "d"), ("sfo", "c")):
        task = network.loop.start(administration.topics.skip_entries(TOPIC, cluster, network.positions[place]))
        error = task.exception()
        assert isinstance(error, AdminError)
        assert error.status == HTTPStatus.PRECONDITION_FAILED
    task = network.loop.start(administration.topics.skip_entries(TOPIC, "jfk", network.positions["c"]))
    assert task.exception() is None
    network.proceed()
    assert network.arrived() == ["a", "b", "d", "e"]


def opened(cluster: Cluster) -> ManagedLedger:
    return ManagedLedger.open(
        cluster.store, cluster.metadata, TOPIC, cluster.environment.ledger_config, cluster.environment.clock
    )


def test_the_records_of_ledgers_that_were_trimmed_go_with_the_next_one() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a")
    topic = cluster.topic()
    kept = Position(topic.ledger.ledgers()[0].ledger_id, 0)
    trimmed = Position(kept.ledger_id + 1, 0)
    cluster.do(lambda: topic.skipped.add("jfk", Range(trimmed, trimmed)))
    cluster.do(lambda: topic.skipped.add("sfo", Range(kept, kept)))
    found = SkippedEntries(opened(cluster))
    assert (found.of("jfk"), found.of("sfo")) == ([], [Range(kept, kept)])


def test_the_records_are_bounded() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a")
    topic = cluster.topic()
    (ledger,) = topic.ledger.ledgers()
    skipped = topic.skipped

    def add(ledger_id: int, count: int) -> None:
        for number in range(count):
            position = Position(ledger_id, 2 * number)
            skipped.add("jfk", Range(position, position))

    cluster.do(lambda: add(ledger.ledger_id, SKIPPED_RANGES_MAX))
    with pytest.raises(RequestError, match="which is the maximum") as raised:
        skipped.add("sfo", Range(Position(ledger.ledger_id, 1), Position(ledger.ledger_id, 1)))
    assert raised.value.limit is Limit.SKIPPED_RANGES
    found = SkippedEntries(opened(cluster))
    assert len(found.of("jfk")) == SKIPPED_RANGES_MAX
    assert found.of("sfo") == []
