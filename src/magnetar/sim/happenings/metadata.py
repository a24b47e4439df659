"""Metadata stores: their writes fail for a while, or the broker ends in the middle of a series of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.happenings.base import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.site import Site

FAIL_S = (0.1, 2.0)
"""How long the writes of a metadata store fail."""

WRITES_MAX = 4
"""A broker ends at most so many writes after this was decided."""


class Metadata(Happening):
    """See the module."""

    name = "metadata"
    share = 0.6
    counted = ("broker ends at a metadata write",)

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("metadata writes fail", 1, self._fail, is_fault=True),
            Action("metadata write to end the broker", 2, self._end_soon, is_fault=True),
        )

    def heal(self) -> None:
        """See Happening."""
        for site in self.world.sites.values():
            self._mend(site)
            site.metadata.disarm()

    def _fail(self) -> bool:
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.metadata.fail_writes = True
        self.world.note(site.name, "its metadata store takes no writes")
        self.world.later(self.chance.uniform(*FAIL_S), lambda: self._mend(site))
        return True

    def _mend(self, site: Site) -> None:
        if site.metadata.fail_writes:
            site.metadata.fail_writes = False
            self.world.note(site.name, "its metadata store takes writes again")

    def _end_soon(self) -> bool:
        """Arm a write; the trim, the rollover or the subscription that comes next meets it."""
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        is_written = self.chance.random() < 0.5
        site.metadata.end_process_in(self.chance.randint(1, WRITES_MAX), lambda: self._end(site), is_written=is_written)
        return True

    def _end(self, site: Site) -> None:
        self.world.count("broker ends at a metadata write")
        self.chance.choice((self.world.crash, self.world.kill))(site)
