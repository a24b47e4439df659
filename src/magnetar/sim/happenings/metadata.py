"""Metadata stores: their writes fail for a while, or the broker ends in the middle of a series of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.happenings.clients.consumers import Consumers
from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from magnetar.sim.site import Site

FAIL_S = (0.1, 2.0)
"""How long the writes of a metadata store fail."""

COMMIT_S = (0.01, 0.1, 0.5)
"""How long a write of a slow metadata store takes."""

SLOW_S = (0.5, 4.0)
"""How long a metadata store is slow."""

WRITES_MAX = 4
"""A broker ends at most so many writes after this was decided."""


KILLED_S = (0.1, 1.0)
"""How soon after a deletion that failed the broker ends."""


class Metadata(Happening):
    """See the module."""

    name = "metadata"
    share = 0.6
    counted = ("broker ends at a metadata write",)

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("metadata writes fail", 1, self._fail, is_fault=True),
            Action("metadata writes fail during a trim", 5, self._fail_trim, is_fault=True),
            Action("metadata writes fail while a topic is unloaded", 1, self._fail_unload, is_fault=True),
            Action("metadata write fails while a subscription is deleted", 2, self._fail_unsubscribe, is_fault=True),
            Action("metadata store is slow", 1, self._slow_down, is_fault=True),
            Action("metadata write to end the broker", 2, self._end_soon, is_fault=True),
        )

    def heal(self) -> None:
        """See Happening."""
        for site in self.world.sites.values():
            self._mend(site)
            site.metadata.disarm()
            site.metadata.commit_s = 0.0

    def _fail(self) -> bool:
        return self._fail_some(self.world.running()) is not None

    def _fail_trim(self) -> bool:
        site = self._fail_some([site for site in self.world.running() if _has_consumed_a_ledger(site)])
        if site is not None:
            site.loop.create_task(site.maintenance.trim())
        return site is not None

    def _fail_unload(self) -> bool:
        site = self._fail_some(self.world.running())
        if site is not None and site.topics.loaded:
            site.loop.call_soon(site.topics.unload, self.chance.choice(list(site.topics.loaded)))
        return site is not None

    def _fail_unsubscribe(self) -> bool:
        """Let one write fail, and not those before and behind it, and start the broker again soon, or leave it.

        A deletion that takes several writes is left half done, and the next start sees that.
        """
        consumers = self.world.kind(Consumers)
        consumer = consumers.holding()
        if consumer is None or not self.world.sites[consumer.cluster].running:
            return False
        site = self.world.sites[consumer.cluster]
        site.metadata.fail_in(self.chance.randint(1, 2))
        self.world.note(site.name, "its metadata store fails one write")
        consumers.unsubscribe_with(consumer)
        if self.chance.random() < 0.7:
            self.world.later(self.chance.uniform(*KILLED_S), lambda: self.world.kill(site))
        return True

    def _fail_some(self, sites: Sequence[Site]) -> Site | None:
        """Let the writes of the metadata store of one of ``sites`` fail for a while; None: there are none."""
        if not sites:
            return None
        site = self.chance.choice(sites)
        site.metadata.fail_writes = True
        self.world.note(site.name, "its metadata store takes no writes")
        self.world.later(self.chance.uniform(*FAIL_S), lambda: self._mend(site))
        return site

    def _mend(self, site: Site) -> None:
        if site.metadata.fail_writes:
            site.metadata.fail_writes = False
            self.world.note(site.name, "its metadata store takes writes again")

    def _slow_down(self) -> bool:
        """Let each write take a while, in which the broker does nothing else, until it is started again or healed."""
        running = self.world.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.metadata.commit_s = self.chance.choice(COMMIT_S)
        self.world.note(site.name, f"its metadata store takes {site.metadata.commit_s:g} s for each write")
        self.world.later(self.chance.uniform(*SLOW_S), lambda: self._speed_up(site))
        return True

    def _speed_up(self, site: Site) -> None:
        site.metadata.commit_s = 0.0

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


def _has_consumed_a_ledger(site: Site) -> bool:
    """Whether a trim would delete something."""
    for topic in site.topics.loaded.values():
        ledgers = topic.ledger.ledgers()
        if len(ledgers) > 1 and topic.consumed_through(topic.all_cursors()).ledger_id > ledgers[0].ledger_id:
            return True
    return False
