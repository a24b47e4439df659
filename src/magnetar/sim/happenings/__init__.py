"""The kinds of happenings, in the order in which they begin and are healed."""

from __future__ import annotations

from magnetar.sim.happenings.brokers import Brokers
from magnetar.sim.happenings.clients.consumers import Consumers
from magnetar.sim.happenings.clients.producers import Producers
from magnetar.sim.happenings.clients.readers import Readers
from magnetar.sim.happenings.clocks import Clocks
from magnetar.sim.happenings.limits import Limits
from magnetar.sim.happenings.members import Members
from magnetar.sim.happenings.metadata import Metadata
from magnetar.sim.happenings.networks import Networks
from magnetar.sim.happenings.operators import Operations
from magnetar.sim.happenings.pipelines import Pipelines
from magnetar.sim.happenings.policies import Policies
from magnetar.sim.happenings.processes import Processes
from magnetar.sim.happenings.storage.bit_rot import BitRot
from magnetar.sim.happenings.storage.damage import Damage
from magnetar.sim.happenings.storage.disks import Disks
from magnetar.sim.happenings.storage.lives import DisksReplaced, Topics

KINDS = (
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
)
