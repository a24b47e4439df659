"""What an invariant is: a check after every step, and what must come true in peace."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from magnetar.sim.world import World


class Invariant:
    """One thing that must be true. A subclass is listed in ``INVARIANTS`` of ``magnetar.sim.invariants``.

    What concerns the frames of one topic is checked as they come, by ``TopicReferee``.
    """

    counted: ClassVar[tuple[str, ...]] = ()
    """States that it counts with ``World.count``."""

    def __init__(self, world: World) -> None:
        """Watch ``world``."""
        self.world = world

    def check(self) -> None:
        """Look after every step, and call ``World.referee.violate`` if something is wrong."""

    def missing(self) -> str:
        """In peace, what is not yet as it must be; empty when nothing is. It may take ``PEACE_S``."""
        return ""

    def at_end(self) -> str:
        """Once everything was consumed everywhere, what is not yet as it must be; empty when nothing is."""
        return ""
