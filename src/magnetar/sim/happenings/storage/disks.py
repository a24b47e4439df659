"""Disks: they are full for a while, or fail: for good, or until the broker is started again on the same disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.site import Site

FULL_S = (0.1, 2.0)
"""How long a disk is full, or fails before somebody does something about it."""


class Disks(Happening):
    """See the module."""

    name = "disks"
    share = 0.8

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("disk is full", 2, self._fill, is_fault=True),
            Action("disk fails", 1, self._fail, is_fault=True),
            Action("syncs fail for a while", 2, self._fail_for_a_while, is_fault=True),
        )

    def heal(self) -> None:
        """See Happening."""
        for site in self.world.sites.values():
            site.disk.room = None
            if site.disk.fail_syncs:
                self.world.crash(site)
                site.disk.fail_syncs = False  # of one that was down before

    def _fill(self) -> bool:
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.disk.room = self.chance.randint(0, 2000)
        self.world.note(site.name, f"its disk has room for {site.disk.room} bytes")
        self.world.later(self.chance.uniform(*FULL_S), lambda: self._make_room(site))
        return True

    def _make_room(self, site: Site) -> None:
        site.disk.room = None
        self.world.note(site.name, "its disk has room again")

    def _fail(self) -> bool:
        return self._fail_syncs(self.world.crash)

    def _fail_for_a_while(self) -> bool:
        """The kernel forgets what it could not write, and shows it to the next process until power is lost."""
        return self._fail_syncs(self._start_on_the_same_disk)

    def _fail_syncs(self, end: Callable[[Site], None]) -> bool:
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.disk.fail_syncs = True
        self.world.note(site.name, "its disk fails")
        self.world.later(self.chance.uniform(*FULL_S), lambda: end(site))
        return True

    def _start_on_the_same_disk(self, site: Site) -> None:
        site.disk.fail_syncs = False
        self.world.kill(site)
