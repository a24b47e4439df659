"""Invariants over the state of brokers, checked after every step and in the liveness phase."""

from __future__ import annotations

from magnetar.sim.invariants.bounds import Bounds
from magnetar.sim.invariants.convergence import Convergence
from magnetar.sim.invariants.custody import Custody
from magnetar.sim.invariants.deliveries import Deliveries
from magnetar.sim.invariants.fences import FencedTopics
from magnetar.sim.invariants.ledgers import Ledgers
from magnetar.sim.invariants.lifecycles import Lifecycles
from magnetar.sim.invariants.markers import Markers
from magnetar.sim.invariants.protection import Protection
from magnetar.sim.invariants.readers import Readers
from magnetar.sim.invariants.resting import Resting
from magnetar.sim.invariants.retention import Retention
from magnetar.sim.invariants.statistics import Statistics

INVARIANTS = (
    *(Convergence, Statistics, Bounds, Ledgers, Markers, Readers, Deliveries),
    *(Protection, Retention, Lifecycles, Resting, FencedTopics, Custody),
)
