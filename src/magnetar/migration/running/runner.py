"""Runs a migration: performs the effects that are due, and stores what came of them, until the operator decides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import InterruptedMigrationError
from magnetar.migration.known import sum_if_known
from magnetar.migration.machine.effects import EffectKind
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    StageMoved,
    SubscriptionsRemembered,
    TopicsMoved,
)
from magnetar.migration.machine.tables import PlaceEvent, Stage, StageEvent, TopicEvent, TopicState
from magnetar.migration.pace import Pace
from magnetar.migration.running import metadata
from magnetar.migration.running.agreement import is_carried
from magnetar.migration.running.links import clusters_of
from magnetar.migration.running.pair import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.migration.machine.effects import Effect
    from magnetar.migration.machine.journal import Journal
    from magnetar.migration.running.pair import Pair
    from magnetar.migration.running.source import Source

POLL_S = 1.0
"""Seconds between two looks at the same links or subscriptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a step has come."""

    step: Stage
    topics: int
    """Topics that are done."""
    topics_total: int
    left: int | None = None
    """Entries or acknowledgements that the target does not have; None: unknown."""
    per_second: float | None = None
    eta_s: float | None = None
    waits_for: str = ""
    """A topic that is not done, and the reason."""


class World(Protocol):
    """Time, and the end that an operator asks for."""

    def monotonic(self) -> float:
        """Seconds since some start."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return at once with True when the command shall end."""
        ...


class Runner:
    """Runs the steps before the switch, and the way back from them."""

    def __init__(
        self,
        pair: Pair,
        source: Source,
        journal: Journal,
        world: World,
        tell: Callable[[Standing], None] = lambda _: None,
    ) -> None:
        """Use a journal whose migration may have begun; ``source`` is that of ``pair``."""
        self._pair = pair
        self._source = source
        self._journal = journal
        self._migration = journal.migration
        self._world = world
        self._tell = tell
        self._pace = Pace()
        self._looked = False
        self._watched_since: dict[str, float] = {}
        """By topic: the time of the first look at its link."""
        self._perform = {
            EffectKind.COPY_METADATA: self._copy_metadata,
            EffectKind.CREATE: self._create,
            EffectKind.REMEMBER_CLUSTERS: self._remember_clusters,
            EffectKind.LINK: self._link,
            EffectKind.AWAIT_DATA: self._await_data,
            EffectKind.REMEMBER_SUBSCRIPTIONS: self._remember_subscriptions,
            EffectKind.REPLICATE: self._replicate,
            EffectKind.AWAIT_PROGRESS: self._await_progress,
            EffectKind.RESTORE: self._restore,
            EffectKind.UNLINK: self._unlink,
        }

    def begin(self) -> None:
        """Begin the migration, or check that the one that has begun is the same; raises MigrationError."""
        if self._migration.begun is None:
            self._journal.append(Begun(str(self._pair.scope), self._pair.source_name, self._pair.target_name))
        else:
            self._pair.require_same(self._migration.begun)

    def run(self) -> None:
        """Return when the operator decides what is next: in READY, DONE or ABANDONED.

        New topics and subscriptions are looked for if the migration was READY. Raises InterruptedMigrationError when
        the command shall end; a later run continues.
        """
        if self._migration.stage is Stage.READY:
            self._journal.append(StageMoved(StageEvent.LOOK_AGAIN))
        while True:
            due, completion = self._migration.due(), self._migration.completion()
            if due:
                self._perform[due[0].kind](due[0])
            elif self._migration.stage is Stage.PROGRESS and not self._looked:
                self._look_for_subscriptions()
                continue
            elif completion is not None:
                self._journal.append(completion)
            else:
                return
            if self._world.wait(0):
                raise InterruptedMigrationError

    def abandon(self) -> None:
        """Restore the settings of subscriptions, and end the links; raises as ``run``."""
        if self._migration.stage not in (Stage.ABANDON, Stage.ABANDONED):
            self._journal.append(StageMoved(StageEvent.ABANDON))
        self.run()

    def _copy_metadata(self, _: Effect) -> None:
        self._say(0, 0)
        found = metadata.copy_metadata(self._pair, self._migration.topics)
        topics = tuple(each for each in found.topics if each not in self._migration.topics)
        places = tuple(each for each in found.places if each not in self._migration.places)
        self._journal.append(Found(topics, places))

    def _create(self, effect: Effect) -> None:
        for done, batch in self._batches(effect):
            self._pair.for_each(batch, lambda topic: metadata.create_topic(self._pair, topic))
            self._journal.append(TopicsMoved(TopicEvent.CREATED, batch))
            self._say(done, len(effect.names))

    def _remember_clusters(self, effect: Effect) -> None:
        for place in effect.names:
            before = tuple(clusters_of(self._pair, place))
            self._journal.append(PlaceMoved(PlaceEvent.REMEMBERED, place, before))

    def _link(self, effect: Effect) -> None:
        for place in effect.names:
            self._source.link(place, self._migration.clusters_before[place])
            self._journal.append(PlaceMoved(PlaceEvent.LINKED, place))

    def _await_data(self, effect: Effect) -> None:
        done, left, waits_for = list[str](), list[int | None](), ""
        for topic, state in self._pair.with_each(effect.names, self._source.link_state):
            now = self._world.monotonic()
            watched_s = now - self._watched_since.setdefault(topic, now)
            if is_carried(state.backlog, state.delay_s, watched_s):
                done.append(topic)
            else:
                left.append(state.backlog)
                waits_for = waits_for or (f"{topic}: {state.waits_for}" if state.waits_for else "")
        self._moved(TopicEvent.CARRIED, done, effect, sum_if_known(left), waits_for)

    def _remember_subscriptions(self, effect: Effect) -> None:
        for _, batch in self._batches(effect):
            found = dict(self._pair.with_each(batch, self._source.settings_of))
            self._journal.append(SubscriptionsRemembered(found))

    def _replicate(self, effect: Effect) -> None:
        before = self._migration.replicated_before
        for _, batch in self._batches(effect):
            self._pair.for_each(batch, lambda topic: self._source.replicate(topic, before[topic]))
            self._journal.append(TopicsMoved(TopicEvent.REPLICATED, batch))

    def _await_progress(self, effect: Effect) -> None:
        done, left, waits_for = list[str](), list[int | None](), ""
        before = self._migration.replicated_before
        for topic, (reason, unconfirmed) in self._pair.with_each(
            effect.names, lambda topic: self._source.missing_progress(topic, before[topic])
        ):
            if reason:
                left.append(unconfirmed)
                waits_for = waits_for or f"{topic}: {reason}"
            else:
                done.append(topic)
        self._moved(TopicEvent.AGREED, done, effect, sum_if_known(left), waits_for)

    def _look_for_subscriptions(self) -> None:
        """Remember subscriptions that were created since those of their topics were remembered."""
        known = self._migration.replicated_before
        agreed = [topic for topic, state in self._migration.topics.items() if state is TopicState.AGREED]
        found = {
            topic: settings
            for topic, settings in self._pair.with_each(agreed, self._source.settings_of)
            if settings.keys() - known[topic].keys()
        }
        if found:
            self._journal.append(SubscriptionsRemembered(found))
        self._looked = True

    def _restore(self, effect: Effect) -> None:
        before = self._migration.replicated_before
        for done, batch in self._batches(effect):
            known = [topic for topic in batch if topic in before]
            self._pair.for_each(known, lambda topic: self._source.restore(topic, before[topic]))
            self._journal.append(TopicsMoved(TopicEvent.RESTORED, batch))
            self._say(done, len(effect.names))

    def _unlink(self, effect: Effect) -> None:
        for place in effect.names:
            before = self._migration.clusters_before.get(place)
            if before is not None:
                self._source.unlink(place, before)
            self._journal.append(PlaceMoved(PlaceEvent.UNLINKED, place))

    def _moved(self, event: TopicEvent, done: Sequence[str], effect: Effect, left: int | None, waits_for: str) -> None:
        """Store which topics are done; wait before the next look if some are not."""
        if done:
            self._journal.append(TopicsMoved(event, tuple(done)))
        if left is not None:
            self._pace.observe(self._world.monotonic(), left)
        self._say(len(done), len(effect.names), left, waits_for)
        if len(done) < len(effect.names):
            self._world.wait(POLL_S)
        else:
            self._pace = Pace()

    def _batches(self, effect: Effect) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the topics of an effect in batches, each with the number of topics up to its end."""
        names, done = iter(effect.names), 0
        while batch := tuple(islice(names, BATCH)):
            done += len(batch)
            yield done, batch
            if self._world.wait(0):
                raise InterruptedMigrationError

    def _say(self, done: int, of: int, left: int | None = 0, waits_for: str = "") -> None:
        total = len(self._migration.topics)
        self._tell(
            Standing(
                step=self._migration.stage,
                topics=total - of + done,
                topics_total=total,
                left=left,
                per_second=self._pace.per_second,
                eta_s=self._pace.eta_s,
                waits_for=waits_for,
            )
        )
