"""Readers get each entry of a cluster's log from their start position, in order, as long as the log has the entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.content import text_in
from magnetar.wire.entries.entry import parse_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.base.position import Position
    from magnetar.sim.checks.checker import Checker
    from magnetar.sim.checks.model import Entry, Model
    from magnetar.sim.clients.reader import SimReader


class Readings:
    """The readers of one topic in all clusters."""

    def __init__(self, model: Model, checker: Checker, violate: Callable[[str], None]) -> None:
        """Begin without readers; differences are reported to ``violate``."""
        self._model = model
        self._checker = checker
        self._violate = violate
        self.count = 0
        """The number of entries read."""
        self.whole = 0
        """The number of assembled chunked messages."""
        self._excused: dict[str, set[Position]] = {}
        """By cluster, the positions that readers may miss; see ``may_miss``."""

    def lose(self, cluster: str) -> None:
        """Forget a cluster that lost the topic."""
        self._excused.pop(cluster, None)

    def may_miss(self, cluster: str, entries: Iterable[Entry]) -> None:
        """Record entries that a TTL or a quota may remove before readers get them, or that are damaged."""
        places = self._model.logs[cluster].places
        self._excused.setdefault(cluster, set()).update(places[entry.text] for entry in entries)

    def read(self, reader: SimReader, position: Position, data: bytes) -> None:
        """N: a reader gets the next entry of the log."""
        self.count += 1
        cluster, log = reader.cluster, self._model.logs[reader.cluster]
        text, name = text_in(parse_metadata(data), data), f"{reader.name} in {cluster}"
        self._checker.check_content(f"{name} read", text, data)
        entry = log.at.get(position)
        if entry is None and position > self._model.given[cluster]:
            self._violate(f"N: {name} got {text} at {position} before it was durable")
        elif entry is not None and entry.text != text:
            self._violate(f"N: {name} got {text} at {position}, but the log has {entry.text} there")
        elif entry is not None:  # otherwise the log was lost since the entry was sent
            skipped = self.unread(reader, before=position)
            if skipped:
                self._violate(f"N: {name} got {text} at {position} after {reader.last}, but not {skipped}")
            self.whole += reader.assembler.add(entry)
            broken = reader.assembler.broken()
            if broken:
                self._violate(f"N: {name} got all chunks of {broken}, but cannot assemble them")

    def unread(self, reader: SimReader, *, before: Position | None = None) -> str:
        """Return the text of the first unread entry of a reader, before ``before``; empty if there is none."""
        first = ""
        excused, listed = self._excused.get(reader.cluster, set()), dict[int, bool]()
        for position, entry in reversed(self._model.logs[reader.cluster].entries):
            if position <= reader.last:
                break
            if (before is not None and position >= before) or position in excused:
                continue
            if position.ledger_id not in listed:
                listed[position.ledger_id] = reader.replica.has_listed(position)
            if listed[position.ledger_id]:  # otherwise the ledger was trimmed
                first = entry.text
        return first
