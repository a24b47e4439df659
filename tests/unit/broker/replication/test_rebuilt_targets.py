"""A target that lost its data is detected when the link attaches, and filled without new traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from magnetar.admin.service import StatsOptions
from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.admin.models.topics import ReplicatorStats
    from magnetar.broker.replication.outbound.replicator import Replicator


class Story:
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
        self.target.store.begin_at(10_000)

    def restart_source(self) -> None:
        """Restart the source's broker after all writes."""
        self.loop.advance(1)
        self.source.settle()
        self.source.crash()
        self.publisher = self.source.client()
        self.publisher.produce()


def test_a_target_that_lost_its_disk_is_filled_without_new_traffic() -> None:
    story = Story()
    story.publish("a", "b", "c")
    story.carry()
    assert read_all(story.target) == ["a", "b", "c"]
    story.rebuild_target()
    story.attach()
    story.carry()
    assert read_all(story.target) == ["a", "b", "c"]
    assert (story.link.lag.backlog, story.pipe.gaps) == (0, 1)


def test_a_target_that_holds_everything_answers_the_probe_and_stores_nothing() -> None:
    story = Story()
    story.publish("a", "b")
    story.carry()
    story.attach()
    assert len(story.pipe.carried) == 1
    story.carry()
    assert (story.pipe.gaps, story.target.topic().ledger.entries, story.link.lag.backlog) == (0, 2, 0)
    story.publish("c")
    story.carry()
    assert read_all(story.target) == ["a", "b", "c"]
    assert story.pipe.gaps == 0


def test_what_the_target_holds_is_unknown_until_it_has_answered_the_current_holder() -> None:
    story = Story()
    assert story.link.lag.backlog == 0  # it never confirmed anything
    story.publish("a", "b")
    assert (story.link.lag.backlog, story.link.lag.delay_s()) == (2, 0)
    story.carry()
    story.detach()
    stats = story.stats().to_json()
    assert "replicationBacklog" not in stats
    assert "replicationDelayInSeconds" not in stats
    assert stats["replicationBacklogAtLeast"] == 0
    assert stats["replicationUnknownSince"]
    story.attach()
    assert story.link.lag.backlog is None
    story.carry()
    assert story.stats().to_json()["replicationBacklog"] == 0
    assert story.stats().replication_unknown_since is None


def test_a_lease_that_follows_without_a_break_keeps_what_is_known_and_verifies_it() -> None:
    story = Story()
    story.publish("a")
    story.carry()
    story.attach()
    assert story.link.lag.backlog == 0
    assert [position for position, _ in story.pipe.carried] == [story.link.target_position.held]


def test_the_position_is_as_durable_as_the_cursor() -> None:
    story = Story()
    story.publish("a", "b")
    story.carry()
    held = story.link.target_position.held
    story.restart_source()
    assert (story.link.target_position.held, story.link.lag.backlog) == (held, None)
    story.rebuild_target()
    story.attach()
    story.carry()
    assert read_all(story.target) == ["a", "b"]
    story.restart_source()
    story.attach()
    story.carry()
    assert (story.pipe.gaps, story.link.lag.backlog) == (0, 0)


def test_a_crash_before_the_cursor_went_back_is_made_up_for_by_the_next_attachment() -> None:
    story = Story()
    story.publish("a", "b")
    story.carry()
    story.restart_source()
    story.rebuild_target()
    story.attach()
    story.pipe.send(1)
    story.pipe.confirm()  # the cursor goes back, and is not written
    assert story.link.target_position.held == EARLIEST
    story.source.crash()
    story.attach()
    story.carry()
    assert read_all(story.target) == ["a", "b"]


def test_entries_that_were_not_meant_for_the_target_are_not_taken_for_lost() -> None:
    story = Story()
    story.publish("a")
    local = entry("kept here", replicate_to=["__local__"])
    story.publisher.say(commands.send(producer_id=1, sequence_id=1, entry=local))
    story.carry()
    story.restart_source()
    story.attach()
    story.carry()
    assert (story.pipe.gaps, read_all(story.target), story.link.lag.backlog) == (0, ["a"], 0)
    story.publish("b")
    story.carry()
    assert (story.pipe.gaps, read_all(story.target)) == (0, ["a", "b"])


def test_a_cursor_of_an_older_version_names_the_newest_entry_that_it_has_passed() -> None:
    story = Story()
    story.publish("a", "b")
    story.carry()
    for name in [name for name in story.link.cursor.properties if name.startswith("magnetar.target")]:
        story.link.cursor.set_property(name, None)
    story.restart_source()
    assert (story.link.target_position.held, story.link.lag.backlog) == (None, None)
    story.rebuild_target()
    story.attach()
    story.carry()
    assert read_all(story.target) == ["a", "b"]


def test_what_was_trimmed_meanwhile_is_named_and_what_follows_arrives() -> None:
    story = Story(max_entries_per_ledger=1, min_rollover_ms=0)
    story.publish("a")
    story.publish("b")
    story.carry()
    held = story.link.target_position.held
    story.source.topic()
    story.publish("c")
    story.source.trim()
    assert story.source.topic().ledger.entries == 1
    story.rebuild_target()
    story.attach()
    with capture_logs() as logs:
        story.carry()
    assert [(each["held"], each["trimmed_through"]) for each in logs if each["event"] == "link_cannot_fill"] == [
        (str(EARLIEST), str(held))
    ]
    assert story.stats().unfilled_through == str(held)
    assert read_all(story.target) == ["c"]


def test_a_topic_that_was_deleted_in_the_target_alone_is_made_again_after_the_grace_time() -> None:
    story = Story()
    story.publish("a", "b")
    story.carry()
    story.target.do(lambda: story.target.delete(TOPIC))
    story.attach()
    assert [error.error for error in story.pipe.writer.take("ERROR")] == [ServerError.ServiceNotReady]
    story.loop.advance(DELETION_GRACE_S)
    story.attach()
    story.carry()
    assert read_all(story.target) == ["a", "b"]


def test_a_topic_that_is_deleted_in_all_clusters_within_the_grace_time_stays_deleted() -> None:
    story = Story()
    story.publish("a", "b")
    story.carry()
    story.target.do(lambda: story.target.delete(TOPIC))
    story.loop.advance(DELETION_GRACE_S / 2)
    story.source.do(lambda: story.source.delete(TOPIC))
    story.loop.advance(DELETION_GRACE_S)
    story.source.settle()
    assert not story.target.resources.topics.exists(TOPIC)
    assert not story.source.resources.topics.exists(TOPIC)
