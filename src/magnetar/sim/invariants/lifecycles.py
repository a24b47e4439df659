"""Lifecycles of topics: which rows of the table were met, and that no topic stays shut."""

from __future__ import annotations

from magnetar.broker.topic.lifecycle import NEXT, Event, State
from magnetar.sim.world import Invariant


def _row(state: State, event: Event) -> str:
    return f"topic {state.value}: {event.value}"


class Lifecycles(Invariant):
    """See the module."""

    counted = tuple(_row(state, event) for state, event in NEXT)

    def check(self) -> None:
        """See Invariant: count what happened since the last step."""
        for site in self.world.sites.values():
            for state, event in site.topic_events:
                self.world.count(_row(state, event))
            site.topic_events.clear()

    def missing(self) -> str:
        """See Invariant: in peace everybody is let into every topic."""
        shut = [
            f"{name.local_name} in {site.name}"
            for site in self.world.running()
            for name in site.replicas
            if site.topics.is_shut(name)
        ]
        return f"nobody is let into {', '.join(shut)}" if shut else ""
