"""Recovery of the origins of a topic's entries, in time proportional to the newest part of the log.

The log contains the origin of each run and is authoritative. For a closed ledger of many runs, the metadata store has a
summary (geo/origins/summary.py), at ``<managed ledger's path>/origins/<ledger id>``. It is written periodically and
when the topic is closed. Without a summary, the runs are read, and the summary is written then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position
from magnetar.geo.origins.summary import OriginSummary, Stretch, decode_summary, merged
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Delete, Put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.names import TopicName
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.store import MetadataStore

SUMMARY_RUNS_MIN = 1_000
"""Minimum number of runs for a summary; fewer runs are read in about the time of reading a summary."""

GROWING_MAX = 16
"""Number of summaries that recovery collects before it writes them."""


def summaries_path(topic: TopicName) -> str:
    """Return the path of a topic's summaries in the metadata store."""
    return f"{managed_ledger_path(topic)}/origins"


def has_summary(metadata: MetadataStore, topic: TopicName, ledger_id: int, entries: int) -> bool:
    """Return whether a ledger with ``entries`` entries has a summary, so that recovery does not read its runs."""
    return _kept(metadata, summaries_path(topic), ledger_id, entries) is not None


def _kept(metadata: MetadataStore, path: str, ledger_id: int, entries: int) -> list[Stretch] | None:
    stored = metadata.get(f"{path}/{ledger_id}")
    return decode_summary(stored.value, entries) if stored is not None else None


class OriginSummaries:
    """The summaries of one topic. Used on the event loop's thread."""

    def __init__(self, metadata: MetadataStore, topic: TopicName, ledger: ManagedLedger) -> None:
        """Create the summaries of a topic; nothing is read yet."""
        self._metadata = metadata
        self._path = summaries_path(topic)
        self._ledger = ledger
        self._growing: dict[int, OriginSummary] = {}
        """Summaries of ledgers that have none in the store, complete from the first entry on."""

    def recover(self) -> Iterator[tuple[Position, Stretch]]:
        """Yield the first position and the origins of each part of the log, in order; all ledgers are closed."""
        kept = set(self._metadata.children(self._path))
        for ledger in self._ledger.ledgers():
            stretches = _kept(self._metadata, self._path, ledger.ledger_id, ledger.entries)
            at = 0
            for stretch in self._read(ledger.ledger_id) if stretches is None else stretches:
                yield Position(ledger.ledger_id, at), stretch
                at += stretch.entries
            if len(self._growing) >= GROWING_MAX:
                self.save()
        self.save()
        self._forget(kept)

    def appended(self, first: Position, count: int, annotation: bytes) -> None:
        """Add a run that has become durable."""
        growing = self._growing.get(first.ledger_id)
        if growing is None:
            growing = self._growing[first.ledger_id] = OriginSummary()
        growing.add(count, annotation)

    def save(self) -> None:
        """Write the summaries of closed ledgers; one that cannot be written is derived again when it is needed."""
        puts = []
        for ledger in self._ledger.ledgers():
            growing = self._growing.get(ledger.ledger_id)
            if growing is not None and ledger.closed_ms is not None and growing.entries == ledger.entries:
                del self._growing[ledger.ledger_id]
                if growing.runs >= SUMMARY_RUNS_MIN and (data := growing.encode()) is not None:
                    puts.append(Put(f"{self._path}/{ledger.ledger_id}", data))
        if puts:
            self._metadata.commit(puts)

    def trimmed(self) -> None:
        """Delete the summaries of deleted ledgers."""
        self._forget(set(self._metadata.children(self._path)))

    def delete(self) -> None:
        """Delete all summaries, before the topic is deleted."""
        self._growing.clear()
        self._remove(self._metadata.children(self._path))

    def _read(self, ledger_id: int) -> Iterator[Stretch]:
        summary = self._growing[ledger_id] = OriginSummary()
        for runs, stretch in merged((run.count, run.annotation) for run in self._ledger.runs_of(ledger_id)):
            summary.add_stretch(runs, stretch)
            yield stretch

    def _forget(self, kept: set[str]) -> None:
        held = {str(ledger.ledger_id) for ledger in self._ledger.ledgers()}
        self._remove(sorted(kept - held))
        for ledger_id in [ledger_id for ledger_id in self._growing if str(ledger_id) not in held]:
            del self._growing[ledger_id]

    def _remove(self, names: Sequence[str]) -> None:
        """Delete summaries; one that cannot be deleted is found again when the topic is loaded."""
        if names:
            self._metadata.commit([Delete(f"{self._path}/{name}") for name in names])
