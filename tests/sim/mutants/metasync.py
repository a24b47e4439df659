"""Bugs in the metadata synchronizer. The worlds of ``magnetar simulate --metadata`` must find them."""

# ruff: noqa: ANN401 - a mutant replaces values of any type, and knows the inside

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from magnetar.metadata.store import Put
from magnetar.metasync import records, store
from magnetar.metasync.events import EventType, MetadataChangeEvent
from magnetar.metasync.local import decisions
from magnetar.metasync.local.holdings import Holdings, next_number
from magnetar.metasync.places import CLOCK, OUTBOX, event_path
from magnetar.metasync.records import Record
from magnetar.metasync.store import SynchronizedStore
from magnetar.metasync.synchronizer import Synchronizer
from magnetar.metasync.timestamps import HybridClock, Timestamp
from magnetar.metasync.units import units_of

if TYPE_CHECKING:
    from tests.sim.mutants.base import Mutant


def wall_clock(_: Any) -> Any:
    def mutant(self: HybridClock, now_ms: int) -> Timestamp:
        return Timestamp(now_ms, 0, self._cluster)

    return mutant


def whole_document(_: Any) -> Any:
    return lambda kind, before, after: list({**units_of(kind, before), **units_of(kind, after)})


def without(path: str) -> Any:
    """Return a mutant that omits the writes to a path from the transaction of a change, and makes them later."""

    def make(original: Any) -> Any:
        def mutant(self: Any, operations: Any, on_durable: Any = None) -> Any:
            inner = self._inner
            later: list[Any] = []

            class Split:
                def commit(self, operations: Any, on_durable: Any = None) -> Any:
                    later.extend(each for each in operations if each.path.startswith(path))
                    kept = [each for each in operations if not each.path.startswith(path)]
                    versions = inner.commit(kept, on_durable)
                    if later and path != CLOCK:
                        inner._loop.call_later(0.01, inner.commit, later)
                    return versions

                def __getattr__(self, name: str) -> Any:
                    return getattr(inner, name)

            self._inner = Split()
            try:
                return original(self, operations, on_durable)
            finally:
                self._inner = inner

        return mutant

    return make


def published_again(original: Any) -> Any:
    def mutant(self: SynchronizedStore, event: MetadataChangeEvent, on_durable: Any) -> bool:
        is_new: bool = original(self, event, on_durable)
        if is_new and event.type is not EventType.SNAPSHOT:
            number = next_number(self.children(OUTBOX))
            self._inner.commit([Put(event_path(number), replace(event, source_cluster=self._cluster).encode())])
        return is_new

    return mutant


def tombstones_forgotten(_: Any) -> Any:
    return 0


def snapshot_without_deletions(original: Any) -> Any:
    def mutant(self: SynchronizedStore) -> Any:
        found = (MetadataChangeEvent.decode(each) for each in original(self))
        return iter([event.encode() for event in found if event.record.exists])

    return mutant


def newer_edit(_: Any) -> Any:
    return lambda one, other: other if other.wins_over(one) else one


def larger_name(_: Any) -> Any:
    def mutant(self: Timestamp, other: Timestamp) -> bool:
        return (self.time_ms, self.counter, self.cluster) < (other.time_ms, other.counter, other.cluster)

    return mutant


def any_time(_: Any) -> Any:
    return lambda _timestamp, _now_ms: None


def clock_not_observed(_: Any) -> Any:
    return lambda _self, _timestamp: None


def acknowledged_at_once(original: Any) -> Any:
    async def mutant(self: Synchronizer, topic: Any, lost: Any) -> None:
        receive = topic.receive

        async def received() -> Any:
            position, data = await receive()
            topic.acknowledge(position)
            return position, data

        topic.receive = received
        await original(self, topic, lost)

    return mutant


def published_unasked(original: Any) -> Any:
    def mutant(self: SynchronizedStore, count_max: int) -> Any:
        found = original(self, count_max)
        self.published(number for number, _ in found)
        return found

    return mutant


def not_awaited(_: Any) -> Any:
    async def mutant(_self: SynchronizedStore) -> None:
        pass

    return mutant


def edit_restores(_: Any) -> Any:
    def mutant(self: Record) -> bool:
        if self.created is None or self.deleted is None:
            return self.created is not None
        return self.deleted < max([self.created, *(each.timestamp for each in self.edits.values())])

    return property(mutant)


def deletion_everywhere(_: Any) -> Any:
    return ()


def defaults_edited(_: Any) -> Any:
    return units_of


def clock_of_no_edit(original: Any) -> Any:
    def mutant(self: Holdings, *parts: Any) -> Any:
        kept = [each for each in original(self, *parts) if each.path != CLOCK]
        return [*kept, Put(CLOCK, json.dumps([0, 0, "zrh"]).encode())]

    return mutant


MUTANTS: dict[str, Mutant] = {
    "the last writer by wall clock wins": (HybridClock, "next", wall_clock),
    "an edit replaces the whole document": (decisions, "changed_units", whole_document),
    "an event outside of the transaction of its change": (SynchronizedStore, "commit", without(OUTBOX)),
    "a clock that is not stored": (Holdings, "operations", clock_of_no_edit),
    "an applied event published again": (SynchronizedStore, "apply", published_again),
    "tombstones forgotten": (store, "DELETED_MAX", tombstones_forgotten),
    "a snapshot without deletions": (SynchronizedStore, "snapshot", snapshot_without_deletions),
    "fewer partitions applied": (records, "_larger", newer_edit),
    "of two routes the newer edit counts": (records, "_later_route", newer_edit),
    "a tie decided by the larger name": (Timestamp, "__lt__", larger_name),
    "an event of the far future applied": (store, "check_time", any_time),
    "timestamps of other clusters not observed": (HybridClock, "observe", clock_not_observed),
    "an event acknowledged before it is durable": (Synchronizer, "_receive", acknowledged_at_once),
    "an event removed before its receipt": (SynchronizedStore, "unpublished", published_unasked),
    "an event published before it is durable": (SynchronizedStore, "durable", not_awaited),
    "an edit that restores a deleted resource": (Record, "exists", edit_restores),
    "the deletion of a topic in all clusters": (decisions, "LOCAL_DELETIONS", deletion_everywhere),
    "a creation that resets to the defaults": (decisions, "own_units", defaults_edited),
}
