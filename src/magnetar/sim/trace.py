"""The trace of a simulation: its events as text or as a sequence diagram, and a hash."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from magnetar.sim.virtual.network import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Event(NamedTuple):
    """An event at one machine, or between two machines."""

    at: float
    source: str
    target: str
    text: str

    def __str__(self) -> str:
        """Return the event as a line of text."""
        where = self.source if self.source == self.target else f"{self.source} → {self.target}"
        return f"{self.at:9.4f}  {where:<28} {self.text}"


class Trace:
    """All events of a run, in order. The hash also covers every received byte."""

    def __init__(self) -> None:
        """Begin without events."""
        self.events: list[Event] = []
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def fingerprint(self) -> str:
        """Return the hash; equal for two runs with the same events."""
        return self._hash.hexdigest()

    def note(self, at: float, source: str, target: str, text: str) -> None:
        """Add an event."""
        self.events.append(Event(at, source, target, text))
        self._hash.update(f"{at!r} {source} {target} {text}\n".encode())

    def count(self, at: float, source: str, target: str, data: bytes) -> None:
        """Add received bytes to the hash, but not to the events."""
        self._hash.update(f"{at!r} {source} {target} ".encode())
        self._hash.update(data)

    def lines(self) -> Iterator[str]:
        """Yield the events as text."""
        return map(str, self.events)

    def diagram(self) -> Iterator[str]:
        """Yield a sequence diagram for Mermaid, with one participant for each place."""
        yield "sequenceDiagram"
        for place in sorted({place_of(name) for event in self.events for name in (event.source, event.target) if name}):
            yield f"    participant {place}"
        for at, source, target, text in self.events:
            one, other = place_of(source), place_of(target)
            told = text.replace(";", ",").replace("#", "")
            if one == other:
                yield f"    Note over {one}: {at:.3f} {told}"
            else:
                yield f"    {one}->>{other}: {at:.3f} {told}"
