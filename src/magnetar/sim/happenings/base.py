"""What a kind of happening is: actions with weights, their healing, and what is counted of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from magnetar.sim.world import World


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that may happen. Its name is counted each time it did."""

    name: str
    weight: float
    do: Callable[[], bool]
    """Do it now; returns False if there was nothing that it could be done to."""
    is_fault: bool = False


class Happening:
    """One kind of happening. A subclass is listed in ``KINDS`` of ``magnetar.sim.happenings``, and that is all."""

    name: ClassVar[str]
    share: ClassVar[float] = 1.0
    """The share of worlds in which it is enabled, 0 to 1."""
    counted: ClassVar[tuple[str, ...]] = ()
    """Further events that it counts with ``World.count``; actions are counted by themselves."""

    def __init__(self, world: World) -> None:
        """Happen in ``world``."""
        self.world = world

    @property
    def chance(self) -> Random:
        """The world's only source of chance."""
        return self.world.chance

    def actions(self) -> Iterable[Action]:
        """What may happen, as long as this kind is enabled. The names must not depend on the world."""
        return ()

    def begin(self) -> None:
        """Prepare the world before the first action."""

    def heal(self) -> None:
        """End all that is wrong because of this kind; from then on nothing of it happens."""
