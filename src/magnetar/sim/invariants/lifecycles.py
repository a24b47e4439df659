"""Lifecycles of topics: coverage of the transition table, and no topic that stays unavailable."""

from __future__ import annotations

from magnetar.broker.topic.lifecycle import NEXT, Event, State
from magnetar.sim.simulation import Invariant


def _row(state: State, event: Event) -> str:
    return f"topic {state.value}: {event.value}"


class Lifecycles(Invariant):
    """See the module."""

    counted = tuple(_row(state, event) for state, event in NEXT)

    def check(self) -> None:
        """See Invariant. Counts the transitions since the last step."""
        for site in self.simulation.sites.values():
            for state, event in site.topic_events:
                self.simulation.count(_row(state, event))
            site.topic_events.clear()

    def missing(self) -> str:
        """See Invariant. Every topic must accept clients."""
        shut = [
            f"{name.local_name} in {site.name}"
            for site in self.simulation.running()
            for name in site.replicas
            if site.topics.is_shut(name)
        ]
        return f"{', '.join(shut)} rejects clients" if shut else ""
