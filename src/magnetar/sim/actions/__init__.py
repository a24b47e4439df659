"""The groups of random actions and faults, in the order in which they begin and are healed."""

from __future__ import annotations

from magnetar.sim.actions.brokers import Brokers
from magnetar.sim.actions.clients.consumers import Consumers
from magnetar.sim.actions.clients.producers import Producers
from magnetar.sim.actions.clients.readers import Readers
from magnetar.sim.actions.clocks import Clocks
from magnetar.sim.actions.fences import Fences
from magnetar.sim.actions.limits import Limits
from magnetar.sim.actions.members import Members
from magnetar.sim.actions.metadata import Metadata
from magnetar.sim.actions.networks import Networks
from magnetar.sim.actions.operators import Operations
from magnetar.sim.actions.pipelines import Pipelines
from magnetar.sim.actions.policies import Policies
from magnetar.sim.actions.processes import Processes
from magnetar.sim.actions.storage.bit_rot import BitRot
from magnetar.sim.actions.storage.damage import Damage
from magnetar.sim.actions.storage.disks import Disks
from magnetar.sim.actions.storage.lives import DisksReplaced, Topics

ACTION_GROUPS = (
    Producers,
    Consumers,
    Operations,
    Brokers,
    Networks,
    Disks,
    Metadata,
    Processes,
    Pipelines,
    Clocks,
    Topics,
    DisksReplaced,
    Policies,
    Members,
    Limits,
    Readers,
    Damage,
    BitRot,
    Fences,
)
