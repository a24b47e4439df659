"""The complete acknowledgement state of a subscription, in pages."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.admin.models.model import Model
from magnetar.base.position import Position


@dataclass(slots=True, kw_only=True)
class AcknowledgementState(Model):
    """Ours. A page of the acknowledgement state of a subscription, in positions of this cluster."""

    mark_delete_position: Position
    ranges: list[list[int]] = field(default_factory=list)
    """Acknowledged entries after the mark-delete position: ledger, first and last entry, both inclusive; ascending."""
    batches: dict[str, list[int]] = field(default_factory=dict)
    """Partly acknowledged batches: the messages that are not acknowledged, by position, as an ack set of the
    protocol."""
    next: str | None = None
    """Value of ``after`` for the next page; None: this is the last one."""
