"""Entries of other clusters on a link: those that its target published and lost, and those in custody here.

The holder carries own entries of this cluster when it has none of them to carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.parts import Part
from magnetar.broker.replication.outbound.copies import Copies, CopyingLink
from magnetar.broker.replication.outbound.custody import Custody, KeepersLink

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer


class ForeignLink(CopyingLink, KeepersLink, Protocol):
    """The link that carries the entries."""


class ForeignEntries(Part):
    """The entries of other clusters on one link."""

    OWNS = ("copies", "custody")

    def __init__(self, link: ForeignLink) -> None:
        """Create it; no holder carries such entries."""
        self.copies = Copies(link)
        self.custody = Custody(link)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to carry, or to learn of the target."""
        copies, custody = self.copies, self.custody
        return copies.is_active or copies.are_pending or custody.is_active or custody.are_pending

    @property
    def backlog(self) -> int | None:
        """Number of entries in custody that the target lacks, also of those that it published; None: unknown."""
        others = self.custody.backlog
        return None if others is None else others + self.copies.backlog

    def changed(self) -> None:
        """Follow a change of policies."""
        self.copies.changed()
        self.custody.changed()

    def begin(self, consumer: Consumer) -> None:
        """Decide what a new holder carries first."""
        self.copies.begin(consumer)
        self.custody.begin(consumer, is_free=not self.copies.is_active)

    def end(self) -> None:
        """Handle the end of the holder."""
        self.copies.end()
        self.custody.end()

    def dispatch(self, consumer: Consumer) -> bool:
        """Send the entries of one read; return whether own entries must wait."""
        if self.copies.is_active:
            self.copies.dispatch(consumer)
        elif self.custody.is_active:
            self.custody.dispatch(consumer)
        else:
            return self.custody.request_holder()
        return True

    def confirm(self, position: Position) -> bool:
        """Note that the target has everything sent up to ``position``; return False if these were own entries."""
        if self.copies.is_active:
            self.copies.confirm(position)
        elif self.custody.is_active:
            self.custody.confirm(position)
        else:
            return False
        return True

    def send_again_after(self, origin: str, position: Position) -> bool:
        """Continue after ``position`` of the cluster ``origin``; return False if it is one of the own entries.

        Copies start over, whatever the position.
        """
        if self.copies.is_active:
            self.copies.start_over()
        elif origin:
            self.custody.send_again_after(origin, position)
        else:
            return False
        return True

    def close(self) -> None:
        """Stop reading."""
        self.copies.close()
        self.custody.close()
