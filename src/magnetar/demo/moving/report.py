"""The report of a demo of a migration: as JSON, as a table, and its failures. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLEAN = "clean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A switch or a rollback."""

    messages: int
    """Messages that were published from its beginning until the next phase."""
    lost: int
    """Messages of them that a subscription did not get."""
    repeated: int
    """Deliveries of messages that were acknowledged."""
    out_of_order: int
    """First deliveries of messages after a later one with the same key."""
    redelivered_unacknowledged: int | None
    """Messages that consumers held without an acknowledgement when it was no longer accepted; None: unknown."""
    unavailable_ms: Mapping[str, float | None]
    """Percentiles by topic: from its fence until its route leads to the other cluster."""
    released: int
    """Topics whose clients stayed where they were."""
    audit: str | list[Mapping[str, Any]]
    """CLEAN, or the findings of the audit of both clusters afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a run."""

    topics: int
    switch: Move
    rollback: Move
    seconds: float

    @property
    def failures(self) -> list[str]:
        """Return the broken promises; empty for a good run."""
        return [f"{failure} {name}" for name, move in self._moves for failure in _failures(move)]

    @property
    def _moves(self) -> tuple[tuple[str, Move], ...]:
        return ("in the switch", self.switch), ("in the rollback", self.rollback)

    def to_json(self) -> dict[str, Any]:
        """Return the report in the form of ``migration.json``."""
        return asdict(self) | {"failures": self.failures}

    def rows(self) -> list[dict[str, str]]:
        """Return the report as rows."""
        return [
            {"what": what, "switch": _shown(there), "rollback": _shown(back)}
            for (what, there), (_, back) in zip(_figures(self.switch), _figures(self.rollback), strict=True)
        ]


def _failures(move: Move) -> Iterator[str]:
    if move.lost:
        yield f"{move.lost:,} messages were lost"
    if move.repeated:
        yield f"{move.repeated:,} acknowledged messages were repeated"
    if move.out_of_order:
        yield f"{move.out_of_order:,} messages came out of order"
    if move.released:
        yield f"{move.released:,} topics were released"
    if move.audit != CLEAN:
        yield f"the audit has {len(move.audit):,} findings"


def _figures(move: Move) -> Iterator[tuple[str, object]]:
    yield "messages published", move.messages
    yield "lost", move.lost
    yield "repeated", move.repeated
    yield "out of order", move.out_of_order
    yield "redelivered, unacknowledged", move.redelivered_unacknowledged
    yield "unavailable, p50 (ms)", move.unavailable_ms["p50"]
    yield "unavailable, p99 (ms)", move.unavailable_ms["p99"]
    yield "audit", move.audit if move.audit == CLEAN else f"{len(move.audit):,} findings"


def _shown(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
