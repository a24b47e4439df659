"""What happened in a simulation: told as text, drawn as a sequence diagram, and summed up in one hash."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from magnetar.sim.virtual.network import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Event(NamedTuple):
    """One thing that happened, at one machine or on the way from one to another."""

    at: float
    source: str
    target: str
    text: str

    def __str__(self) -> str:
        """As a line of text."""
        where = self.source if self.source == self.target else f"{self.source} → {self.target}"
        return f"{self.at:9.4f}  {where:<28} {self.text}"


class Story:
    """All events of a run, in order. The hash covers every byte that arrived anywhere, too."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.events: list[Event] = []
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def fingerprint(self) -> str:
        """Equal for two runs in which the same happened."""
        return self._hash.hexdigest()

    def note(self, at: float, source: str, target: str, text: str) -> None:
        """Tell of an event."""
        self.events.append(Event(at, source, target, text))
        self._hash.update(f"{at!r} {source} {target} {text}\n".encode())

    def count(self, at: float, source: str, target: str, data: bytes) -> None:
        """Let bytes that arrived be part of the hash, without telling of them."""
        self._hash.update(f"{at!r} {source} {target} ".encode())
        self._hash.update(data)

    def lines(self) -> Iterator[str]:
        """The story as text."""
        return map(str, self.events)

    def diagram(self) -> Iterator[str]:
        """The story as a sequence diagram in Mermaid's language, one participant for each place."""
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
