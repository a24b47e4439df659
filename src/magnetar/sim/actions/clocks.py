"""Clocks: they are off by up to half a minute, jump, and run too fast or too slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

JUMP_S = 30.0
"""Maximum offset of a clock, in either direction, in seconds."""

DRIFT = 0.1
"""Maximum gain or loss in seconds per second. Real clocks drift far less, but simulated runs are short."""


class Clocks(ActionGroup):
    """See the module."""

    name = "clocks"
    share = 0.8
    jump_s: ClassVar[float] = JUMP_S

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("clock jumps", 1, self._jump, is_fault=True),
            Action("clock drifts", 1, self._drift, is_fault=True),
        )

    def _jump(self) -> bool:
        """Set the clock of a running broker.

        A broker that is down cannot notice it, and ages on its disk would be wrong.
        """
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.set_clock(self.chance.uniform(-self.jump_s, self.jump_s))
        self.simulation.note(site.name, f"its clock is off by {site.clock.jumped_s:.1f} s")
        return True

    def _drift(self) -> bool:
        site = self.chance.choice(list(self.simulation.sites.values()))
        rate = self.chance.uniform(-DRIFT, DRIFT)
        site.clock.drift(rate)
        self.simulation.note(site.name, f"its clock gains {rate:.3f} s a second")
        return True
