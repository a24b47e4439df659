"""Operators: they skip, clear or expire the backlog of a subscription in one cluster, for all of its consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.broker.admin.administration import Administration
from magnetar.broker.domains import Domains

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.checks.simulation_checks import SimulationChecks
    from magnetar.sim.site import Replica, Site

    Work = Callable[[Subscription], Awaitable[None]]


class Operators:
    """Runs each operation later, on the cluster's loop, and reports it to the checks right before, in the same turn."""

    def __init__(self, checks: SimulationChecks) -> None:
        """Report acknowledged entries and their confirmation to ``checks``."""
        self._checks = checks

    def skip(self, replica: Replica, name: str, count: int) -> None:
        """Acknowledge the next ``count`` entries."""

        async def work(subscription: Subscription) -> None:
            confirmed = self._checks.topics[replica.name].operations.skips(replica, subscription, count)
            await _administration(replica.site).subscriptions.skip(replica.name, name, count)
            confirmed()

        self._do(replica, name, work)

    def clear(self, replica: Replica, name: str) -> None:
        """Acknowledge all entries."""

        async def work(subscription: Subscription) -> None:
            confirmed = self._checks.topics[replica.name].operations.clears(
                replica, subscription, subscription.topic.ledger.last_confirmed_entry
            )
            await _administration(replica.site).subscriptions.skip_all(replica.name, name)
            confirmed()

        self._do(replica, name, work)

    def expire(self, replica: Replica, name: str, seconds: int) -> None:
        """Acknowledge entries older than ``seconds``."""

        async def work(_: Subscription) -> None:
            confirmed = self._checks.topics[replica.name].operations.expires(replica, seconds, name)
            await _administration(replica.site).subscriptions.expire(replica.name, name, seconds)
            confirmed()

        self._do(replica, name, work)

    def _do(self, replica: Replica, name: str, work: Work) -> None:
        async def attempt() -> None:
            try:
                await replica.site.topics.ready(replica.name)  # a request waits while the topic is unloaded
                subscription = replica.topic.subscriptions.get(name) if replica.topic is not None else None
                if subscription is not None:
                    await work(subscription)
            except MagnetarError as error:  # the operator gets the error, and nothing was confirmed
                self._checks.note(replica.cluster, "", f"{name}: an operator is refused: {error}")

        replica.site.loop.create_task(attempt())


def _administration(site: Site) -> Administration:
    return Administration(site.environment, Domains(site.topics), "")
