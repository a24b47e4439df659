"""Metadata stores: writes that fail, and brokers that end between two writes of a series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.actions.clients.consumers import Consumers
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from magnetar.sim.site import Site

FAIL_S = (0.1, 2.0)
"""Duration of failing writes, in seconds."""

COMMIT_S = (0.01, 0.1, 0.5)
"""Duration of one write to a slow metadata store, in seconds."""

SLOW_S = (0.5, 4.0)
"""Duration for which a metadata store is slow, in seconds."""

WRITES_MAX = 4
"""Maximum number of writes until an armed broker ends."""


KILLED_S = (0.1, 1.0)
"""Delay between a failed deletion and the end of the broker, in seconds."""


class Metadata(ActionGroup):
    """See the module."""

    name = "metadata"
    share = 0.6
    counted = ("broker ends at a metadata write",)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("metadata writes fail", 1, self._fail, is_fault=True),
            Action("metadata writes fail during a trim", 5, self._fail_trim, is_fault=True),
            Action("metadata writes fail while a topic is unloaded", 1, self._fail_unload, is_fault=True),
            Action("another writer takes over a topic that is unloaded", 2, self._take_over_and_unload, is_fault=True),
            Action("metadata write fails while a subscription is deleted", 2, self._fail_unsubscribe, is_fault=True),
            Action("metadata store is slow", 1, self._slow_down, is_fault=True),
            Action("metadata write to end the broker", 2, self._end_soon, is_fault=True),
        )

    def heal(self) -> None:
        """See ActionGroup."""
        for site in self.simulation.sites.values():
            self._mend(site)
            site.metadata.disarm()
            site.metadata.commit_s = 0.0

    def _fail(self) -> bool:
        return self._fail_some(self.simulation.running()) is not None

    def _fail_trim(self) -> bool:
        site = self._fail_some([site for site in self.simulation.running() if _has_consumed_a_ledger(site)])
        if site is not None:
            site.loop.create_task(site.maintenance.trim())
        return site is not None

    def _fail_unload(self) -> bool:
        site = self._fail_some(self.simulation.running())
        if site is not None and site.topics.loaded:
            site.loop.call_soon(site.topics.unload, self.chance.choice(list(site.topics.loaded)))
        return site is not None

    def _take_over_and_unload(self) -> bool:
        """Have another writer store the ledger list of a topic that is being unloaded, so that it cannot be stored."""
        replicas = [replica for replica in self.simulation.loaded() if not replica.is_unloading]
        if not replicas:
            return False
        replica = self.chance.choice(replicas)
        site, name = replica.site, replica.name
        self.simulation.note(site.name, f"another writer takes {name.local_name} over, and it is unloaded")

        def take_over() -> None:
            site.topics.unload(name)
            site.metadata.take_over(managed_ledger_path(name))

        site.loop.call_soon(take_over)
        return True

    def _fail_unsubscribe(self) -> bool:
        """Fail one write of a deletion, and restart the broker soon or not at all.

        A deletion of several writes is left incomplete, and the next start finds it.
        """
        consumers = self.simulation.group(Consumers)
        consumer = consumers.holding()
        if consumer is None or not self.simulation.sites[consumer.cluster].running:
            return False
        site = self.simulation.sites[consumer.cluster]
        site.metadata.fail_in(self.chance.randint(1, 2))
        self.simulation.note(site.name, "its metadata store fails one write")
        consumers.unsubscribe_with(consumer)
        if self.chance.random() < 0.7:
            self.simulation.later(self.chance.uniform(*KILLED_S), lambda: self.simulation.kill(site))
        return True

    def _fail_some(self, sites: Sequence[Site]) -> Site | None:
        """Fail the writes of one of the metadata stores of ``sites`` for a while; return None if there is none."""
        if not sites:
            return None
        site = self.chance.choice(sites)
        site.metadata.fail_writes = True
        self.simulation.note(site.name, "its metadata store takes no writes")
        self.simulation.later(self.chance.uniform(*FAIL_S), lambda: self._mend(site))
        return site

    def _mend(self, site: Site) -> None:
        if site.metadata.fail_writes:
            site.metadata.fail_writes = False
            self.simulation.note(site.name, "its metadata store takes writes again")

    def _slow_down(self) -> bool:
        """Slow down each write until a restart or healing."""
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        site.metadata.commit_s = self.chance.choice(COMMIT_S)
        self.simulation.note(site.name, f"its metadata store takes {site.metadata.commit_s:g} s for each write")
        self.simulation.later(self.chance.uniform(*SLOW_S), lambda: self._speed_up(site))
        return True

    def _speed_up(self, site: Site) -> None:
        site.metadata.commit_s = 0.0

    def _end_soon(self) -> bool:
        """Arm a write of the next trim, rollover or subscription to end the broker."""
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        is_written = self.chance.random() < 0.5
        site.metadata.end_process_in(self.chance.randint(1, WRITES_MAX), lambda: self._end(site), is_written=is_written)
        return True

    def _end(self, site: Site) -> None:
        self.simulation.count("broker ends at a metadata write")
        self.chance.choice((self.simulation.crash, self.simulation.kill))(site)


def _has_consumed_a_ledger(site: Site) -> bool:
    """Return whether a trim would delete a ledger."""
    for topic in site.topics.loaded.values():
        ledgers = topic.ledger.ledgers()
        if len(ledgers) > 1 and topic.consumed_through(topic.all_cursors()).ledger_id > ledgers[0].ledger_id:
            return True
    return False
