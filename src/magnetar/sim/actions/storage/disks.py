"""Disks: full for a while, or failing, permanently or until a restart on the same disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.site import Site

FULL_S = (0.1, 2.0)
"""Bounds of the time for which a disk is full or fails, in seconds."""


class Disks(ActionGroup):
    """See the module."""

    name = "disks"
    share = 0.8

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("disk is full", 2, self._fill, is_fault=True),
            Action("disk fails", 1, self._fail, is_fault=True),
            Action("syncs fail for a while", 2, self._fail_for_a_while, is_fault=True),
        )

    def heal(self) -> None:
        """See ActionGroup."""
        for site in self.simulation.sites.values():
            site.disk.room = None
            if site.disk.fail_syncs:
                self.simulation.crash(site)
                site.disk.fail_syncs = False  # of a disk whose broker was already down

    def _fill(self) -> bool:
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.disk.room = self.chance.randint(0, 2000)
        self.simulation.note(site.name, f"its disk has room for {site.disk.room} bytes")
        self.simulation.later(self.chance.uniform(*FULL_S), lambda: self._make_room(site))
        return True

    def _make_room(self, site: Site) -> None:
        site.disk.room = None
        self.simulation.note(site.name, "its disk has room again")

    def _fail(self) -> bool:
        return self._fail_syncs(self.simulation.crash)

    def _fail_for_a_while(self) -> bool:
        """Fail syncs until a restart.

        The kernel drops unwritten data, but shows it to the next process until power is lost.
        """
        return self._fail_syncs(self._start_on_the_same_disk)

    def _fail_syncs(self, end: Callable[[Site], None]) -> bool:
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.disk.fail_syncs = True
        self.simulation.note(site.name, "its disk fails")
        self.simulation.later(self.chance.uniform(*FULL_S), lambda: end(site))
        return True

    def _start_on_the_same_disk(self, site: Site) -> None:
        site.disk.fail_syncs = False
        self.simulation.kill(site)
