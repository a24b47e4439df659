"""Bugs in the order of writes: metadata, tombstones, closing, deduplication."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.loop.closing import close_each
from magnetar.broker.publish.sequence_ids import SequenceIds
from magnetar.broker.replication.progress.tombstones import Tombstones, _Tombstone
from magnetar.broker.subscription.subscription import Subscription
from magnetar.broker.topic import loader as broker_topics
from magnetar.broker.topic.ending import closing
from magnetar.broker.topic.load_failures import LoadFailures
from magnetar.broker.topic.registry import TopicRegistry
from magnetar.ledger.ledger_list import LedgerList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.base.errors import TopicLoadError
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.metadata.store import OnDurable, Put
    from tests.sim.mutants.base import Mutant


def ledgers_deleted_before_the_write(original: Any) -> Any:
    def mutant(self: LedgerList, ledger_ids: Iterable[int]) -> None:
        doomed = list(ledger_ids)
        for ledger_id in doomed:
            self._store.delete(ledger_id)
        original(self, doomed)

    return mutant


def ledgers_forgotten_before_the_write(_: Any) -> Any:
    def mutant(self: LedgerList, ledger_ids: Iterable[int]) -> None:
        for ledger_id in ledger_ids:
            self._store.delete(ledger_id)
        self.is_unsaved = True

    return mutant


def tombstone_in_memory_only(_: Any) -> Any:
    def mutant(
        self: Tombstones,
        tombstone: SubscriptionProgress,
        along_with: Sequence[Put] = (),
        on_durable: OnDurable | None = None,
    ) -> None:
        self._ledger._listed._metadata.commit(along_with, on_durable)
        last = self._ledger.last_confirmed_entry
        self._tombstones = {**self._tombstones, tombstone.name: _Tombstone(*tombstone.epoch, *last)}

    return mutant


def closing_stopped_by_a_failure(_: Any) -> Any:
    def mutant(_loop: Any, _what: object, _name: str, step: Callable[[], object]) -> None:
        step()

    return mutant


def acknowledgements_not_written_at_the_end(_: Any) -> Any:
    def mutant(self: Subscription) -> None:
        self._closed = True
        self.disconnect_consumers()
        self.cursor.close()

    return mutant


def damage_not_kept_to_the_topic(_: Any) -> Any:
    def mutant(_self: LoadFailures, _name: TopicName, error: Exception) -> TopicLoadError:
        message = f"{error}"
        raise ValueError(message) from error  # no caller handles it

    return mutant


def unloaded_with_writes_under_way(_: Any) -> Any:
    def mutant(self: TopicRegistry, name: TopicName) -> None:
        topic = self.loaded.pop(name, None)
        if topic is not None:
            close_each(self.environment.loop, name, closing(topic))
            self.linked.load(name)

    return mutant


def sequence_ids_not_written(original: Any) -> Any:
    def mutant(self: SequenceIds, through: Position) -> bytes:
        self._changed = {}
        snapshot: bytes = original(self, through)
        return snapshot

    return mutant


MUTANTS: dict[str, Mutant] = {
    "ledgers deleted before that is written": (LedgerList, "drop", ledgers_deleted_before_the_write),
    "ledgers forgotten before that is written": (LedgerList, "drop", ledgers_forgotten_before_the_write),
    "a tombstone kept in memory only": (Tombstones, "add", tombstone_in_memory_only),
    "the closing of a topic stopped by a failure": (broker_topics, "close_one", closing_stopped_by_a_failure),
    "acknowledgements not written when a topic is closed": (
        Subscription,
        "close",
        acknowledgements_not_written_at_the_end,
    ),
    "a topic unloaded while writes are under way": (TopicRegistry, "unload", unloaded_with_writes_under_way),
    "the damage of a topic not kept to itself": (LoadFailures, "failed", damage_not_kept_to_the_topic),
    "sequence ids left out of snapshots": (SequenceIds, "delta", sequence_ids_not_written),
}
