"""Lives: topics are deleted, in one cluster or in all, and created again; disks are replaced by empty ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.broker.admin.administration import Administration
from magnetar.broker.domains import Domains
from magnetar.sim.actions.clients.producers import Producers
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.scenario import TopicPlan
    from magnetar.sim.site import Site

REPLACED_S = (0.02, 1.0)
"""Virtual seconds between the last messages published on a disk and its replacement."""

REPLACED_LAST = 0.5
"""Share of the runs with replaced disks in which one is replaced after all traffic has ended."""

APART_S = (0.0, 3.0)
"""Virtual seconds between two deletions of a topic that is deleted in all clusters."""


AGAIN_S = (0.0, 0.1)
"""Virtual seconds between a deletion of a topic and its next creation, or the other way round, in a script."""

AGAIN_MAX = 6
"""Maximum number of times for which a script creates a topic again and deletes it."""

ASKED_WITHIN_S = 1.0
"""Virtual seconds for which a script waits until a task asks for a link of a topic that was created."""

ARRIVES_S = 0.2
"""Virtual seconds in which a request arrives."""


class Topics(ActionGroup):
    """Topics are deleted. Clients, links or finally an operator create them again."""

    name = "topic lives"
    share = 0.3
    counted = ("topic deleted",)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("topic deleted in one cluster", 0.6, self._delete_in_one),
            Action("topic deleted in all clusters", 0.4, self._delete_in_all),
        )

    def heal(self) -> None:
        """Delete each topic in some clusters, not in all, at the very end, after which nothing is published.

        Scripts create topics and delete them again at once, so that links become due while attachments are refused.
        """
        running = self.simulation.running()
        for plan in self.simulation.scenario.plans if running else ():
            for site in self.chance.sample(running, self.chance.randint(1, max(1, len(running) - 1))):
                site.loop.create_task(self._delete_again(site, plan, self.chance.randint(0, AGAIN_MAX)))

    def _delete_in_one(self) -> bool:
        running = self.simulation.running()
        if running:
            self.delete(self.chance.choice(running), self.chance.choice(self.simulation.scenario.plans))
        return bool(running)

    def _delete_in_all(self) -> bool:
        plan, after_s = self.chance.choice(self.simulation.scenario.plans), 0.0
        for site in self.chance.sample(list(self.simulation.sites.values()), len(self.simulation.sites)):
            self.simulation.later(after_s, lambda site=site: self._delete_soon(site, plan))  # type: ignore[misc]
            after_s += self.chance.uniform(*APART_S)
        return True

    def _delete_soon(self, site: Site, plan: TopicPlan) -> None:
        if not self.simulation.is_healed:
            self.delete(site, plan)

    def delete(self, site: Site, plan: TopicPlan) -> None:
        """Delete a topic, or a partitioned topic, in one cluster, unless its broker is down."""
        if site.running:
            site.loop.create_task(self._delete_now(site, plan))

    async def _delete_again(self, site: Site, plan: TopicPlan, times: int) -> None:
        """Delete a topic, then create it again and delete it for a number of ``times``; at last, create it."""
        await self._delete_now(site, plan)
        for _ in range(times):
            await asyncio.sleep(self.chance.uniform(*AGAIN_S))
            await self.simulation.have_topics(site)
            await asyncio.sleep(self.chance.uniform(*AGAIN_S))
            await self._delete_now(site, plan)
        if times:  # the operator who creates missing topics may have come before
            await self.simulation.have_topics(site)
            await self._overtake(site, plan)

    async def _overtake(self, site: Site, plan: TopicPlan) -> None:
        """Delete a topic while a task asks for a link of it, and create it before the task learns of that."""
        until = self.simulation.scheduler.now + ASKED_WITHIN_S
        while self.simulation.scheduler.now < until:
            for task in (task for pipeline in self.simulation.pipelines for task in pipeline.leases[-1]):
                if task.target != site.name and any(task.asks_for(site.name, str(part)) for part in plan.parts):
                    task.machine.wait(4 * ARRIVES_S)
                    await self._delete_now(site, plan)
                    await asyncio.sleep(ARRIVES_S)
                    await self.simulation.have_topics(site)
                    return
            await asyncio.sleep(ARRIVES_S / 100)

    async def _delete_now(self, site: Site, plan: TopicPlan) -> None:
        administration = Administration(site.environment, Domains(site.topics), "")
        with self.simulation.observed_deletions(site):
            try:
                if plan.partitions:
                    await administration.topics.delete_partitioned(plan.name, force=True)
                else:
                    await administration.topics.delete(plan.name, force=True)
            except MagnetarError as error:
                self.simulation.note(site.name, f"{plan.name.local_name} is not deleted: {error}")
        self.simulation.count("topic deleted")


class DisksReplaced(ActionGroup):
    """A cluster loses its disk and returns under its name."""

    name = "disk lives"
    share = 0.3

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("disk replaced", 4, self._replace, is_fault=True),)

    def heal(self) -> None:
        """Replace a disk in some runs at the very end, after which nothing is published."""
        running = self.simulation.running()
        if running and self.chance.random() < REPLACED_LAST:
            self._put_empty_disk_into(self.chance.choice(running))

    def _replace(self) -> bool:
        """Replace a disk soon after publishing. Other clusters have some of the messages and send them back."""
        running = self.simulation.running()
        if not running:
            return False
        site = self.chance.choice(running)
        for producer in self.simulation.producers:
            if producer.cluster == site.name:
                for _ in range(self.chance.choice((0, 1, 4))):
                    self.simulation.group(Producers).publish_one(producer)
        self.simulation.later(self.chance.uniform(*REPLACED_S), lambda: self._replace_in(site))
        return True

    def _replace_in(self, site: Site) -> None:
        if site.running and not self.simulation.is_healed:
            self._put_empty_disk_into(site)

    def _put_empty_disk_into(self, site: Site) -> None:
        self.simulation.note(site.name, "its disk is replaced by an empty one")
        self.simulation.replace_disk(site)
