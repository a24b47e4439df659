"""Clocks: they are off by up to half a minute, jump, and run too fast or too slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

JUMP_S = 30.0
"""How far a clock may be off, either way."""

DRIFT = 0.1
"""How much a clock gains or loses at most, in seconds a second: far more than real ones, for worlds are short."""


class Clocks(Happening):
    """See the module."""

    name = "clocks"
    share = 0.8

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("clock jumps", 1, self._jump, is_fault=True),
            Action("clock drifts", 1, self._drift, is_fault=True),
        )

    def _jump(self) -> bool:
        """Set the clock of a running broker: while it is down it cannot notice, and ages on its disk would be off."""
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.set_clock(self.chance.uniform(-JUMP_S, JUMP_S))
        self.world.note(site.name, f"its clock is off by {site.clock.jumped_s:.1f} s")
        return True

    def _drift(self) -> bool:
        site = self.chance.choice(list(self.world.sites.values()))
        rate = self.chance.uniform(-DRIFT, DRIFT)
        site.clock.drift(rate)
        self.world.note(site.name, f"its clock gains {rate:.3f} s a second")
        return True
