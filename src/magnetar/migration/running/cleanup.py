"""The clean-up: what the source still has of a moved tenant, and its deletion in an order that strands nothing.

1. No link of the source has a backlog: entries for third clusters have arrived, too.
2. Subscriptions of the target get their former settings.
3. The target keeps the messages of the source (policy ``custody``). The links between the clusters end, in the target
   first: otherwise they would create the topics of the source anew.
4. The topics of the source are deleted, with their fences. The route leads to the target, so no client returns.
5. The namespaces and the tenant no longer name the source. The route stays, for clients with an address of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.errors import InterruptedMigrationError
from magnetar.base.names import TopicName
from magnetar.migration.machine.effects import EffectKind
from magnetar.migration.machine.partitions import route_scope
from magnetar.migration.machine.records import PlaceMoved, StageMoved, TopicsMoved
from magnetar.migration.machine.tables import PlaceEvent, Stage, StageEvent, TopicEvent
from magnetar.migration.running.custody import take_custody
from magnetar.migration.running.links import set_clusters
from magnetar.migration.running.pair import BATCH
from magnetar.migration.running.subscriptions import restore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.admin.nouns.noun import Json
    from magnetar.migration.machine.effects import Effect
    from magnetar.migration.machine.journal import Journal
    from magnetar.migration.running.pair import Pair
    from magnetar.migration.running.runner import World
    from magnetar.migration.running.source import Source
    from magnetar.migration.sides import Side


LOOKS = 3
LOOK_EVERY_S = 1.0
"""Links are looked at so often: under traffic there is always an entry on its way."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What the clean-up deletes or changes."""

    topics: int
    """Topics and partitions of the source, which are deleted."""
    storage_bytes: int
    places: tuple[str, ...]
    """Namespaces, and topics with their own clusters, that the source no longer serves."""
    waiting: str = ""
    """Why nothing can be deleted yet, such as entries that a third cluster does not have; empty: it can."""


class Cleanup:
    """Cleans up after a switch. Run it again after an interruption."""

    def __init__(self, pair: Pair, source: Source, only_source: Side, journal: Journal, world: World) -> None:
        """Use a migration that is SWITCHED, or in CLEANUP, and the ``source`` of its pair.

        ``only_source`` is the source, with a client whose changes of metadata do not reach other clusters.
        """
        self._pair = pair
        self._source = source
        self._only_source = only_source
        self._journal = journal
        self._migration = journal.migration
        self._world = world
        self._perform = {
            EffectKind.RESTORE: self._restore,
            EffectKind.UNLINK: self._unlink,
            EffectKind.DELETE: self._delete,
        }

    def leftovers(self) -> Leftovers:
        """Return what would be deleted now."""
        found, waiting = self._look()
        for _ in range(LOOKS - 1):
            if waiting and not self._world.wait(LOOK_EVERY_S):
                found, waiting = self._look()
        stored_bytes = sum(stats.get("storageSize", 0) for stats in found)
        return Leftovers(len(found), stored_bytes, tuple(self._migration.places), waiting)

    def run(self) -> None:
        """Delete it; raises InterruptedMigrationError when the command shall end."""
        if self._migration.stage is Stage.SWITCHED:
            self._journal.append(StageMoved(StageEvent.CLEAN_UP))
        while (due := self._migration.due()) or self._migration.stage is Stage.CLEANUP:
            if due:
                self._perform[due[0].kind](due[0])
            else:
                self._leave()
                self._journal.append(StageMoved(StageEvent.CLEANED_UP))

    def _look(self) -> tuple[list[Json], str]:
        """Return the statistics of the topics that exist, and what must be waited for."""
        known = {topic: stats for topic, stats in self._pair.with_each(self._migration.topics, self._stats) if stats}
        waiting = [self._source.left_behind(topic, stats) for topic, stats in known.items()]
        return list(known.values()), next(filter(None, waiting), "")

    def _stats(self, topic: str) -> Json | None:
        with self._pair.source.answers():
            return if_present(self._pair.source.client.topics.stats, TopicName.parse(topic))

    def _restore(self, effect: Effect) -> None:
        before = self._migration.replicated_before
        for batch in self._batches(effect.names):
            self._pair.for_each(batch, lambda topic: restore(self._pair.target, topic, before.get(topic, {})))
            self._journal.append(TopicsMoved(TopicEvent.RESTORED, batch))

    def _unlink(self, effect: Effect) -> None:
        for place in effect.names:
            take_custody(self._pair, place)
            set_clusters(self._pair.target, place, self._without_source(place))
            if not self._pair.from_pulsar:
                set_clusters(self._only_source, place, [self._pair.source_name])
            self._journal.append(PlaceMoved(PlaceEvent.UNLINKED, place))

    def _delete(self, effect: Effect) -> None:
        scopes = list(dict.fromkeys(map(route_scope, effect.names)))
        for batch in self._batches(scopes):
            self._pair.for_each(batch, self._delete_topic)
            deleted = [topic for topic in effect.names if route_scope(topic) in batch]
            self._journal.append(TopicsMoved(TopicEvent.DELETED, tuple(deleted)))

    def _delete_topic(self, scope: str) -> None:
        """Delete a topic with its partitions; a final fence would refuse that."""
        client, whole = self._only_source.client, TopicName.parse(scope)
        with self._only_source.answers():
            partitions = if_present(client.topics.partitions, whole) or 0
            for topic in map(whole.partition, range(partitions)) if partitions else (whole,):
                if not self._pair.from_pulsar:  # its fences were in the target
                    self._remove_fence(topic)
            delete = client.topics.delete_partitioned if partitions else client.topics.delete
            if_present(delete, whole, force=True)

    def _remove_fence(self, topic: TopicName) -> None:
        fences = self._only_source.client.fences
        found = if_present(fences.get, topic)
        if found is not None and found.get("fence") is not None:
            fences.remove(topic, found["fence"]["migration"], found["fence"]["epoch"], is_decision=True)

    def _leave(self) -> None:
        """Let namespaces, and the tenant if all of it has moved, no longer name the source.

        Apache Pulsar keeps them as they are: it knows no other cluster.
        """
        pair = self._pair
        for place in self._migration.places:
            if "://" not in place and not pair.from_pulsar:
                set_clusters(pair.source, place, self._without_source(place))
        if pair.scope.parts:
            return
        for side in (pair.target,) if pair.from_pulsar else (pair.target, pair.source):
            with side.answers():
                tenants = side.client.tenants
                info = tenants.get(pair.scope.tenant)
                allowed = info.get("allowedClusters", [])
                if pair.source_name in allowed:
                    left = [each for each in allowed if each != pair.source_name]
                    tenants.update(pair.scope.tenant, left, info.get("adminRoles", []))

    def _without_source(self, place: str) -> list[str]:
        """Return the clusters of a place: those before the migration, with the target instead of the source."""
        pair = self._pair
        before = self._migration.clusters_before[place]
        return list(dict.fromkeys(pair.target_name if each == pair.source_name else each for each in before))

    def _batches(self, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
        for first in range(0, len(names), BATCH):
            yield tuple(names[first : first + BATCH])
            if self._world.wait(0):
                raise InterruptedMigrationError
