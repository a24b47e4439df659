"""Observes the events that brokers publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.checks.simulation_checks import SimulationChecks
from magnetar.sim.metasync.history import History
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.session.session import Session
    from magnetar.sim.scenario import Scenario
    from magnetar.sim.site import Site
    from magnetar.sim.trace import Trace
    from magnetar.sim.virtual.scheduler import Scheduler


class EventChecks(SimulationChecks):
    """See SimulationChecks. There are no topics to check, only events."""

    def __init__(self, scenario: Scenario, scheduler: Scheduler, trace: Trace) -> None:
        """Begin without events."""
        super().__init__(scenario, scheduler, trace)
        self.history = History(self.violate)
        self._events: dict[Session, FrameDecoder] = {}

    def received(self, site: Site, session: Session, data: bytes) -> Callable[[], None]:
        """See Tap. The synchronizer is the only client at the place of its broker."""
        if session.address.startswith(f"/{site.name}:"):
            decoder = self._events.get(session)
            if decoder is None:
                decoder = self._events[session] = FrameDecoder()
            for frame in decoder.feed(data):
                if frame.command.type == pb.BaseCommand.SEND:
                    self.deliveries += 1
                    self.history.published(site.name, bytes(payload_of(frame.body)))
        return _nothing

    def sent(self, site: Site, session: Session, frame: bytes) -> None:
        """See Tap."""


def _nothing() -> None:
    """Do nothing after the broker handled the data."""
