"""Recovering where a topic's entries come from, in time proportional to what was written last.

The log notes the origin of each run, and is the only truth. For a closed ledger of many runs the metadata store keeps a
summary of them (geo/origins/summary.py), at ``<managed ledger's path>/origins/<ledger id>``. It is written from time to
time and when the topic is closed; where there is none the runs are read, and it is written then.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from magnetar.base.errors import NotFoundError, StorageError
from magnetar.base.position import Position
from magnetar.geo.origins.summary import OriginSummary, Stretch, decode_summary, merged
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.names import TopicName
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.store import MetadataStore

SUMMARY_RUNS_MIN = 1_000
"""Runs that are worth a summary: fewer are read in about the time that it takes to find one."""

GROWING_MAX = 16
"""Summaries of closed ledgers that recovery gathers before it writes them."""


def summaries_path(topic: TopicName) -> str:
    """Where the summaries of a topic are."""
    return f"{managed_ledger_path(topic)}/origins"


class OriginSummaries:
    """The summaries of one topic. Used on the event loop's thread."""

    def __init__(self, metadata: MetadataStore, topic: TopicName, ledger: ManagedLedger) -> None:
        """Nothing is read yet."""
        self._metadata = metadata
        self._path = summaries_path(topic)
        self._ledger = ledger
        self._growing: dict[int, OriginSummary] = {}
        """Of ledgers that have no summary in the store, from their first entry on."""

    def recover(self) -> Iterator[tuple[Position, Stretch]]:
        """Yield where each stretch of the log starts, and the stretch, in order; all ledgers are closed."""
        kept = set(self._metadata.children(self._path))
        for ledger in self._ledger.ledgers():
            stretches = self._kept(ledger.ledger_id, ledger.entries) if str(ledger.ledger_id) in kept else None
            at = 0
            for stretch in self._read(ledger.ledger_id) if stretches is None else stretches:
                yield Position(ledger.ledger_id, at), stretch
                at += stretch.entries
            if len(self._growing) >= GROWING_MAX:
                self.save()
        self.save()
        self._forget(kept)

    def appended(self, first: Position, count: int, annotation: bytes) -> None:
        """A run has become durable."""
        growing = self._growing.get(first.ledger_id)
        if growing is None:
            growing = self._growing[first.ledger_id] = OriginSummary()
        growing.add(count, annotation)

    def save(self) -> None:
        """Keep the summaries of the ledgers that were closed; what cannot be kept now is made again when needed."""
        puts = []
        for ledger in self._ledger.ledgers():
            growing = self._growing.get(ledger.ledger_id)
            if growing is not None and ledger.closed_ms is not None and growing.entries == ledger.entries:
                del self._growing[ledger.ledger_id]
                if growing.runs >= SUMMARY_RUNS_MIN and (data := growing.encode()) is not None:
                    puts.append(Put(f"{self._path}/{ledger.ledger_id}", data))
        if puts:
            with suppress(StorageError):
                self._metadata.put_many(puts)

    def trimmed(self) -> None:
        """Ledgers have gone, and their summaries go."""
        self._forget(set(self._metadata.children(self._path)))

    def delete(self) -> None:
        """The topic is about to go."""
        self._growing.clear()
        for name in self._metadata.children(self._path):
            self._metadata.delete(f"{self._path}/{name}")

    def _kept(self, ledger_id: int, entries: int) -> list[Stretch] | None:
        stored = self._metadata.get(f"{self._path}/{ledger_id}")
        return decode_summary(stored.value, entries) if stored is not None else None

    def _read(self, ledger_id: int) -> Iterator[Stretch]:
        summary = self._growing[ledger_id] = OriginSummary()
        for runs, stretch in merged((run.count, run.annotation) for run in self._ledger.runs_of(ledger_id)):
            summary.add_stretch(runs, stretch)
            yield stretch

    def _forget(self, kept: set[str]) -> None:
        held = {str(ledger.ledger_id) for ledger in self._ledger.ledgers()}
        for name in sorted(kept - held):
            with suppress(NotFoundError, StorageError):
                self._metadata.delete(f"{self._path}/{name}")
        for ledger_id in [ledger_id for ledger_id in self._growing if str(ledger_id) not in held]:
            del self._growing[ledger_id]
