"""A target that lost its data is detected when the link attaches, and filled without new traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import DiskFullError, ServerError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S, FORGOTTEN_AT_ONCE_MAX
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands

if TYPE_CHECKING:
    import pytest

    from magnetar.admin.models.topics import ReplicatorStats
    from magnetar.broker.replication.outbound.replicator import Replicator


class RebuiltTargetScenario:
    """A source, a target, and the pipe between them."""

    def __init__(self, **ledger: int) -> None:
        self.loop = HandLoop()
        config = ManagedLedgerConfig(**ledger)
        self.source = Cluster("ewr", targets=["jfk"], loop=self.loop, ledger_config=config)
        self.target = Cluster("jfk", targets=["ewr"], loop=self.loop)
        self.pipe = Pipe(self.source, self.target)
        self.publisher = self.source.client()
        self.publisher.produce()
        self.sent = 0
        self.attach()

    @property
    def link(self) -> Replicator:
        return self.source.topic().replicators["jfk"]

    def stats(self) -> ReplicatorStats:
        return topic_stats(self.source.topic(), StatsOptions()).replication["jfk"]

    def publish(self, *texts: str) -> None:
        self.publisher.send(*texts, first=self.sent)
        self.sent += len(texts)

    def attach(self) -> None:
        """Begin a lease that learns the target's entries only from the target's responses."""
        lease = self.pipe.lease
        self.pipe = Pipe(self.source, self.target, lease)
        self.pipe.attach(seek=False, permits=1000)

    def carry(self) -> None:
        self.pipe.read()
        self.pipe.run()

    def detach(self) -> None:
        self.pipe.reader.leave()
        self.pipe.writer.leave()
        self.source.settle()

    def rebuild_target(self) -> None:
        """Replace the target's disk by an empty one."""
        self.detach()
        self.target = Cluster("jfk", targets=["ewr"], loop=self.loop)
        self.target.store.ids.begin_at(10_000)

    def restart_source(self) -> None:
        """Restart the source's broker after all writes."""
        self.loop.advance(1)
        self.source.settle()
        self.source.crash()
        self.publisher = self.source.client()
        self.publisher.produce()


def test_a_target_that_lost_its_disk_is_filled_without_new_traffic() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b", "c")
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b", "c"]
    scenario.rebuild_target()
    scenario.attach()
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b", "c"]
    assert (scenario.link.lag.backlog, scenario.pipe.gaps) == (0, 1)


def test_a_link_does_not_start_behind_entries_that_a_crash_would_bring_back(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a")
    scenario.carry()
    topic, metadata, reader = scenario.source.topic(), scenario.source.metadata, scenario.pipe.reader
    topic.ledger._listed.drop([scenario.source.store.create()])

    def seek() -> None:
        reader.say(commands.seek(consumer_id=1, request_id=reader.request_id(), position=EARLIEST))
        scenario.source.settle()

    with monkeypatch.context() as disk_full:
        error = DiskFullError("metadata store: database or disk is full")
        disk_full.setattr(metadata, "_submit", lambda _transaction: metadata._failed(error))
        seek()
        assert [each.message for each in reader.take("ERROR")] == [f"{topic.name}: a trim is not durable"]
        assert reader.take("MESSAGE") == []
    assert topic.ledger.is_trim_unstored
    seek()
    assert not topic.ledger.is_trim_unstored
    assert len(reader.take("SUCCESS")) == len(reader.take("MESSAGE")) == 1


def test_a_target_that_holds_everything_answers_the_probe_and_stores_nothing() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b")
    scenario.carry()
    scenario.attach()
    assert len(scenario.pipe.carried) == 1
    scenario.carry()
    assert (scenario.pipe.gaps, scenario.target.topic().ledger.entries, scenario.link.lag.backlog) == (0, 2, 0)
    scenario.publish("c")
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b", "c"]
    assert scenario.pipe.gaps == 0


def test_a_target_that_loses_its_disk_after_it_named_its_position_is_filled() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b", "c")
    scenario.carry()
    named = scenario.link.target_position.held
    assert named is not None
    scenario.rebuild_target()
    scenario.attach()
    scenario.pipe.seek(named)
    assert not scenario.link.target_position.is_known, "the target has not answered the holder"
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b", "c"]
    assert (scenario.link.lag.backlog, scenario.pipe.gaps) == (0, 1)


def test_entries_that_a_source_lost_with_the_power_do_not_begin_a_link() -> None:
    """Only trimmed entries do: a target without the lost ones may lack those before them, too."""
    scenario = RebuiltTargetScenario()
    scenario.publish("a")
    scenario.publish("b", "c")
    scenario.carry()
    scenario.loop.advance(1)
    scenario.source.settle()
    first = scenario.source.topic().ledger.first_position
    scenario.detach()
    scenario.source.lose_power(first.ledger_id, 1)
    scenario.publisher = scenario.source.client()
    scenario.publisher.produce()
    scenario.target = Cluster("jfk", targets=["ewr"], loop=scenario.loop)
    scenario.target.store.ids.begin_at(10_000)
    scenario.attach()
    scenario.publish("d")
    scenario.pipe.read()
    scenario.pipe.carried.pop(0)  # the pipeline loses the probe
    scenario.carry()
    assert read_all(scenario.target) == ["a", "d"]


def test_the_targets_entries_are_unknown_until_it_has_answered_the_current_holder() -> None:
    scenario = RebuiltTargetScenario()
    assert scenario.link.lag.backlog == 0  # it never confirmed anything
    scenario.publish("a", "b")
    assert (scenario.link.lag.backlog, scenario.link.lag.delay_s()) == (2, 0)
    scenario.carry()
    scenario.detach()
    stats = scenario.stats().to_json()
    assert "replicationBacklog" not in stats
    assert "replicationDelayInSeconds" not in stats
    assert stats["replicationBacklogAtLeast"] == 0
    assert stats["replicationUnknownSince"]
    scenario.attach()
    assert scenario.link.lag.backlog is None
    scenario.carry()
    assert scenario.stats().to_json()["replicationBacklog"] == 0
    assert scenario.stats().replication_unknown_since is None


def test_a_lease_that_follows_without_a_break_keeps_what_is_known_and_verifies_it() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a")
    scenario.carry()
    scenario.attach()
    assert scenario.link.lag.backlog == 0
    assert [position for position, _ in scenario.pipe.carried] == [scenario.link.target_position.held]


def test_the_position_is_as_durable_as_the_cursor() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b")
    scenario.carry()
    held = scenario.link.target_position.held
    scenario.restart_source()
    assert (scenario.link.target_position.held, scenario.link.lag.backlog) == (held, None)
    scenario.rebuild_target()
    scenario.attach()
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b"]
    scenario.restart_source()
    scenario.attach()
    scenario.carry()
    assert (scenario.pipe.gaps, scenario.link.lag.backlog) == (0, 0)


def test_a_crash_before_the_cursor_went_back_is_made_up_for_by_the_next_attachment() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b")
    scenario.carry()
    scenario.restart_source()
    scenario.rebuild_target()
    scenario.attach()
    scenario.pipe.send(1)
    scenario.pipe.confirm()  # the cursor goes back, and is not written
    assert scenario.link.target_position.held == EARLIEST
    scenario.source.crash()
    scenario.attach()
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b"]


def test_entries_that_were_not_meant_for_the_target_are_not_taken_for_lost() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a")
    local = entry("kept here", replicate_to=["__local__"])
    scenario.publisher.say(commands.send(producer_id=1, sequence_id=1, entry=local))
    scenario.carry()
    scenario.restart_source()
    scenario.attach()
    scenario.carry()
    assert (scenario.pipe.gaps, read_all(scenario.target), scenario.link.lag.backlog) == (0, ["a"], 0)
    scenario.publish("b")
    scenario.carry()
    assert (scenario.pipe.gaps, read_all(scenario.target)) == (0, ["a", "b"])


def test_a_cursor_of_an_older_version_names_the_newest_entry_that_it_has_passed() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b")
    scenario.carry()
    for name in [name for name in scenario.link.cursor.properties if name.startswith("magnetar.target")]:
        scenario.link.cursor.set_property(name, None)
    scenario.restart_source()
    assert (scenario.link.target_position.held, scenario.link.lag.backlog) == (None, None)
    scenario.rebuild_target()
    scenario.attach()
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b"]


def test_trimmed_entries_are_reported_and_later_ones_arrive() -> None:
    scenario = RebuiltTargetScenario(max_entries_per_ledger=1, min_rollover_ms=0)
    scenario.publish("a")
    scenario.publish("b")
    scenario.carry()
    held = scenario.link.target_position.held
    scenario.source.topic()
    scenario.publish("c")
    scenario.source.trim()
    assert scenario.source.topic().ledger.entries == 1
    scenario.rebuild_target()
    scenario.attach()
    with capture_logs() as logs:
        scenario.carry()
    assert [(each["held"], each["trimmed_through"]) for each in logs if each["event"] == "link_cannot_fill"] == [
        (str(EARLIEST), str(held))
    ]
    assert scenario.stats().unfilled_through == str(held)
    assert read_all(scenario.target) == ["c"]


def test_a_topic_that_was_deleted_in_the_target_alone_is_made_again_after_the_grace_time() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b")
    scenario.carry()
    scenario.target.do(lambda: scenario.target.delete(TOPIC))
    scenario.attach()
    assert [error.error for error in scenario.pipe.writer.take("ERROR")] == [ServerError.ServiceNotReady]
    scenario.loop.advance(DELETION_GRACE_S)
    scenario.attach()
    scenario.carry()
    assert read_all(scenario.target) == ["a", "b"]


def test_a_topic_that_is_deleted_in_all_clusters_within_the_grace_time_stays_deleted() -> None:
    scenario = RebuiltTargetScenario()
    scenario.publish("a", "b")
    scenario.carry()
    scenario.target.do(lambda: scenario.target.delete(TOPIC))
    scenario.loop.advance(DELETION_GRACE_S / 2)
    scenario.source.do(lambda: scenario.source.delete(TOPIC))
    scenario.loop.advance(DELETION_GRACE_S)
    scenario.source.settle()
    assert not scenario.target.resources.topics.exists(TOPIC)
    assert not scenario.source.resources.topics.exists(TOPIC)


def test_old_deletions_are_forgotten_a_few_at_a_time() -> None:
    """Thousands of topics may be deleted within a minute, and each deletion looked at all of them."""
    cluster = Cluster()
    linked, count = cluster.topics.linked, 3 * FORGOTTEN_AT_ONCE_MAX // 2
    names = [TopicName.parse(f"{TOPIC}-{number}") for number in range(count + 2)]
    for name in names[:count]:
        linked.deleted(name)
    cluster.loop.advance(DELETION_GRACE_S)
    linked.deleted(names[count])
    assert len(linked._deleted_at) == count + 1 - FORGOTTEN_AT_ONCE_MAX
    linked.deleted(names[count + 1])
    assert list(linked._deleted_at) == names[count:]
    linked.deleted(names[count])
    assert list(linked._deleted_at) == [names[count + 1], names[count]]
