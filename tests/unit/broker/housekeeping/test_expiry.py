"""Messages expire by their time in this cluster, independent of publish times and wall clocks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.admin.administration import Administration
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.checks.times import Ages
from magnetar.sim.cluster import TOPIC, Client, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp

if TYPE_CHECKING:
    from collections.abc import Coroutine

TTL_S = 300
HOUR_S = 3600.0
SMALL_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=4, min_rollover_ms=0)
TTL = {"ttlDurationDefaultInSeconds": TTL_S}
AGE_QUOTA = {"backlogQuotaDefaultLimitSecond": TTL_S, "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction"}


class Stage:
    """A cluster with one subscription, a client that publishes, and a link that brings entries of ewr."""

    def __init__(self, ledger_config: ManagedLedgerConfig = SMALL_LEDGERS, **configured: Any) -> None:  # noqa: ANN401
        self.cluster = Cluster("jfk", targets=("ewr",), settings=configured or TTL, ledger_config=ledger_config)
        self.ages = Ages()
        self._published = 0
        self._last_origin = EARLIEST
        self.cluster.client().subscribe(permits=0, replicate_subscription_state=True)
        self._connect()

    def _connect(self) -> None:
        self._producer, self._link = self.cluster.client(), self.cluster.client()
        self._producer.produce(name="local")
        self._link.produce(name="pulsar.repl.ewr-->jfk", producer_id=7)

    @property
    def now(self) -> float:
        return self.cluster.clock.monotonic()

    def wall_ms(self, seconds: float = 0.0) -> int:
        """The wall clock's time, ``seconds`` later."""
        return int((self.cluster.clock.now() + seconds) * 1000)

    def publish(self, ahead_s: float = 0.0) -> Position:
        """Publish one entry here; the producer's clock is so much ahead of the broker's."""
        dated = entry("here", publish_time=max(self.wall_ms(ahead_s), 0))
        self._producer.say(commands.send(producer_id=1, sequence_id=self._published, entry=dated))
        return self._receipted(self._producer)

    def arrive(self, age_s: float) -> Position:
        """Replicate an entry that was published ``age_s`` seconds ago in ewr."""
        origin = Position(5, self._last_origin.entry_id + 1)
        dated = entry("there", publish_time=max(self.wall_ms(-age_s), 0))
        stamped = stamp(dated, Origin("ewr", origin, self._last_origin, self._last_origin, link_start=False))
        self._link.say(commands.send(producer_id=7, sequence_id=self._published, entry=stamped))
        self._last_origin = origin
        return self._receipted(self._link)

    def _receipted(self, client: Client) -> Position:
        self._published += 1
        ((_, position),) = client.receipts()
        self.ages.appended(position, self.now)
        return position

    def advance(self, seconds: float) -> None:
        self.cluster.loop.advance(seconds)
        self.cluster.settle()

    def jump(self, seconds: float) -> None:
        """Set the wall clock, and let one round of maintenance happen."""
        self.cluster.clock.jumped_s += seconds
        self.run(Maintenance(self.cluster.environment, self.cluster.topics).trim())

    def restart(self) -> None:
        """Stop in order and start again."""
        self.stop()
        self.crash()

    def stop(self) -> None:
        """Close the topics in order."""
        self.cluster.do(lambda: self.cluster.loop.create_task(self.cluster.topics.stop()))

    def crash(self) -> None:
        self.cluster.crash()
        self._connect()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what the work returns
        task = self.cluster.loop.start(work)
        self.cluster.settle()
        return task.result()

    def expire(self) -> None:
        """Run one round of maintenance, which must not remove entries younger than the limit."""
        maintenance = Maintenance(self.cluster.environment, self.cluster.topics)
        self.run(maintenance.expire())
        self.run(maintenance.check_backlogs())
        assert self.ages.too_young(self.is_expired, TTL_S, self.now) == []

    def is_expired(self, position: Position) -> bool:
        return self.cluster.subscription().cursor.state.is_deleted(position)

    @property
    def backlog(self) -> int:
        return self.cluster.subscription().backlog

    @property
    def shown_age(self) -> int:
        administration = Administration(self.cluster.environment, self.cluster.domains, "")
        stats = self.run(administration.topics.stats(TOPIC, StatsOptions()))
        return int(stats.oldest_backlog_message_age_seconds)


@pytest.mark.parametrize("configured", [TTL, AGE_QUOTA])
def test_old_entries_that_arrive_behind_fresh_ones_take_none_of_them_along(configured: dict[str, Any]) -> None:
    stage = Stage(**configured)
    stage.advance(600.0)
    for _ in range(10):
        stage.publish()
    for number in range(20):
        stage.arrive(age_s=600.0 - number)
    stage.expire()
    assert stage.backlog == 30
    progress = stage.cluster.subscription().progress
    assert progress is not None
    assert not any(each.acknowledged for each in progress.state.origins.values())


@pytest.mark.parametrize("configured", [TTL, AGE_QUOTA])
@pytest.mark.parametrize("ahead_s", [-400.0, -1e9, 400.0, 1e9])
def test_the_clock_of_a_producer_has_no_influence(configured: dict[str, Any], ahead_s: float) -> None:
    stage = Stage(**configured)
    stage.publish()
    stage.publish(ahead_s)
    stage.publish()
    stage.advance(TTL_S - 1)
    stage.expire()
    assert stage.backlog == 3
    stage.publish()
    stage.advance(2)
    stage.expire()
    assert stage.backlog == 1


def test_messages_are_expired_by_hand_by_the_same_rule() -> None:
    stage = Stage()
    stage.publish()
    stage.advance(20)
    stage.publish(ahead_s=-400.0)
    stage.arrive(age_s=400.0)
    administration = Administration(stage.cluster.environment, stage.cluster.domains, "")
    stage.run(administration.subscriptions.expire(TOPIC, "worker", 10))
    assert stage.backlog == 2
    assert stage.cluster.subscription().expired == 1


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S, 1e8])
def test_a_wall_clock_that_is_set_changes_no_age(jump_s: float) -> None:
    stage = Stage()
    stage.publish()
    stage.advance(100)
    stage.cluster.clock.jumped_s = jump_s
    stage.publish()
    stage.expire()
    assert stage.backlog == 2
    stage.advance(TTL_S - 99)
    stage.expire()
    assert stage.backlog == 1


@pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S, 1e8])
def test_a_wall_clock_that_is_set_while_a_topic_is_not_loaded_changes_no_age(jump_s: float) -> None:
    """The monotonic clock has the same start for the next load, also after a restart of the broker."""
    stage = Stage()
    stage.publish()
    stage.advance(100)
    stage.stop()
    stage.cluster.clock.jumped_s = jump_s
    stage.crash()
    stage.advance(10)
    assert stage.shown_age == 109
    stage.expire()
    assert stage.backlog == 1
    stage.advance(TTL_S - 109)
    stage.expire()
    assert stage.backlog == 0


def test_after_a_start_of_the_machine_ages_depend_on_the_wall_clock() -> None:
    stage = Stage()
    stage.publish()
    stage.stop()
    stage.cluster.clock.boots += 1
    stage.cluster.clock.jumped_s = 100.0
    stage.crash()
    assert stage.shown_age in (99, 100)


def test_a_wall_clock_that_gains_slowly_makes_no_message_older_over_a_start_of_the_machine() -> None:
    """Each step is too small to be followed when it happens; together they are nearly a second."""
    stage = Stage()
    for _ in range(10):
        stage.publish()
        stage.cluster.clock.jumped_s += 0.09
        stage.advance(1)
    stage.cluster.clock.boots += 1
    stage.crash()
    stage.advance(TTL_S - 7 - 0.5)  # the fourth message, the last one of its ledger, is half a second too young
    stage.expire()
    assert stage.backlog == 10
    stage.advance(1)
    stage.expire()
    assert stage.backlog == 6


def test_ages_survive_a_restart_to_the_length_of_a_ledger() -> None:
    stage = Stage()
    for _ in range(8):
        stage.publish()
        stage.advance(10)
    stage.restart()
    assert stage.backlog == 8
    stage.advance(TTL_S - 30)  # those of the first ledger are older than the limit, those of the second are not yet
    stage.expire()
    assert stage.backlog == 4
    stage.advance(60)
    stage.expire()
    assert stage.backlog == 0


def test_the_age_of_a_quiet_topic_survives_a_restart() -> None:
    stage = Stage()
    stage.publish()
    stage.advance(100)
    stage.restart()
    stage.advance(10)
    assert stage.shown_age == 109  # milliseconds are rounded to the safe side
    stage.advance(TTL_S - 109)
    stage.expire()
    assert stage.backlog == 0


def test_unrecorded_times_before_a_crash_count_from_the_next_start() -> None:
    stage = Stage()
    stage.publish()
    stage.advance(1000)
    stage.crash()
    assert stage.shown_age == -1
    stage.expire()
    assert stage.backlog == 1
    stage.advance(TTL_S + 1)
    assert stage.shown_age == -1
    stage.expire()
    assert stage.backlog == 0


def test_a_second_crash_does_not_begin_again() -> None:
    stage = Stage()
    stage.publish()
    stage.crash()
    stage.cluster.trim()
    stage.advance(TTL_S - 10)
    stage.crash()
    stage.advance(11)
    assert stage.shown_age == -1
    stage.expire()
    assert stage.backlog == 0


def test_the_oldest_age_is_shown_at_once_and_minus_one_where_there_is_none() -> None:
    stage = Stage()
    assert stage.shown_age == -1
    stage.publish(ahead_s=-1000.0)
    stage.advance(7)
    assert stage.shown_age == 7
    stage.cluster.do(partial(stage.cluster.loop.create_task, stage.cluster.subscription().skip(1)))
    topic = stage.cluster.topic()
    assert stage.shown_age == 7  # the link has not carried it yet
    stage.cluster.do(partial(topic.replicators["ewr"].cursor.acknowledge_cumulative, topic.ledger.last_confirmed_entry))
    assert stage.shown_age == -1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.floats(-1e6, 1e6)),
        st.tuples(st.just("arrive"), st.floats(0, 1e6)),
        st.tuples(st.just("advance"), st.floats(0, 200)),
        st.tuples(st.just("jump"), st.floats(-1e6, 1e6)),
        st.tuples(st.sampled_from(["expire", "restart", "crash"]), st.just(0.0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([TTL, AGE_QUOTA]))
def test_nothing_younger_than_the_limit_expires_and_everything_does_in_the_end(
    steps: list[tuple[str, float]], configured: dict[str, Any]
) -> None:
    stage = Stage(**configured)
    for what, value in steps:
        if what in {"expire", "restart", "crash"}:
            getattr(stage, what)()
        elif what == "jump":
            stage.jump(value)
        else:
            getattr(stage, what)(value)
    stage.expire()
    stage.advance(TTL_S + 1)
    stage.expire()
    assert stage.backlog == 0
