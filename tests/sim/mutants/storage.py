"""Bugs in the log: durability, trimming, retention."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.log.topic_log import TopicLog
from magnetar.broker.topic.topic import Topic
from magnetar.ledger import deletions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.medium.local_segment import LocalOpenSegment
from magnetar.metadata.store import Delete
from magnetar.sim import site

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.position import Position
    from magnetar.cursor.cursor import Cursor
    from magnetar.ledger.store import LedgerStore
    from magnetar.metadata.store import MetadataStore, OnDurable, Put
    from tests.sim.mutants.base import Mutant


def sync_forgotten(_: Any) -> Any:
    return lambda _segment: None


def trimmed_past_a_cursor(_: Any) -> Any:
    def mutant(self: Topic, _cursors: list[Cursor]) -> Position:
        return self.ledger.last_confirmed_entry

    return mutant


def links_forgotten_when_trimming(original: Any) -> Any:
    def mutant(self: Topic) -> list[Cursor]:
        links = [link.cursor for link in self.replicators.values()]
        return [cursor for cursor in original(self) if cursor not in links]

    return mutant


def ledger_ids_begin_anew(_: Any) -> Any:
    return lambda _now: 1


def deleted_log_kept(_: Any) -> Any:
    def mutant(self: ManagedLedger, _also: Any, along_with: Sequence[Put], on_durable: OnDurable) -> None:
        self._listed._metadata.commit(along_with, on_durable)

    return mutant


def never_trimmed(_: Any) -> Any:
    return lambda *_positional, **_named: None


def unlisted_and_kept(_: Any) -> Any:
    def mutant(_store: LedgerStore, metadata: MetadataStore, ledger_ids: Sequence[int]) -> Iterator[None]:
        metadata.commit([Delete(deletions.note_of(ledger_ids))])
        return iter(())

    return mutant


MUTANTS: dict[str, Mutant] = {
    "receipts before the disk was synced": (LocalOpenSegment, "_sync", sync_forgotten),
    "trimmed past a cursor": (Topic, "consumed_through", trimmed_past_a_cursor),
    "links forgotten when trimming": (Topic, "all_cursors", links_forgotten_when_trimming),
    "ledger ids of a new disk begin at 1": (site, "first_ledger_id", ledger_ids_begin_anew),
    "the log of a deleted topic kept": (ManagedLedger, "delete", deleted_log_kept),
    "ledgers that are not listed any more kept": (deletions, "deletion_steps", unlisted_and_kept),
    "nothing trimmed": (TopicLog, "trim", never_trimmed),
}
