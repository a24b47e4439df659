"""Faults of worlds of metadata: those of other worlds that need no topics, clusters that leave, hostile events."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, ClassVar

from magnetar.base.errors import MagnetarError
from magnetar.client.client import PulsarClient
from magnetar.sim.actions.clocks import Clocks
from magnetar.sim.actions.metadata import Metadata
from magnetar.sim.actions.networks import Networks
from magnetar.sim.actions.processes import Processes
from magnetar.sim.cluster import PORT
from magnetar.sim.metasync.edits import TENANTS, Edits, MetadataGroup
from magnetar.sim.metasync.scenario import EVENT_TOPIC, LOSSY
from magnetar.sim.metasync.simulation import SKEW_S
from magnetar.sim.simulation import Action
from magnetar.sim.virtual.scheduler import MachineLoop
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.metasync.site import SynchronizedSite
    from magnetar.sim.simulation import Simulation

SOON_S = (0.0, 0.03)
"""Bounds of the time between an edit and the end of its broker, in seconds."""

DELETED_AFTER_S = (0.5, 1.0, 2.0)
"""Seconds from the departure of a cluster to deletions in the others."""

TRIMMED_AFTER_S = (1.5, 3.0, 4.5, 6.0)
"""Seconds from the departure of a cluster to trims in the others, before and after snapshots."""

FUTURE_MS = 7_200_000
"""Milliseconds by which events of a wrong clock are ahead. It exceeds the bound by more than the skew of the clocks."""

_ENDS = ("crash", "kill", "broker stopped", "pipeline task stopped")
_STORES = ("metadata writes fail", "metadata store is slow", "metadata write to end the broker")


class Brokers(Processes):
    """See Processes. Some brokers end right after an edit."""

    name = "brokers"
    share = 0.9

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        yield from (action for action in super().actions() if action.name in _ENDS)
        yield Action("broker ends after an edit", 4, self._end_after_edit, is_fault=True)

    def _end_after_edit(self) -> bool:
        edits = self.simulation.group(Edits)
        site = edits.edit_one()
        if site is not None:
            end = self.chance.choice((self.simulation.crash, self.simulation.kill))
            self.simulation.later(self.chance.uniform(*SOON_S), lambda: end(site))
        return site is not None


class Links(Networks):
    """See Networks. There are no clients to cut off."""

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (action for action in super().actions() if not action.name.startswith("clients"))


class Trims(MetadataGroup):
    """Brokers trim the event topic, so that a new link does not send old events again, and finish deletions."""

    name = "trims"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("trim", 3, self._trim),)

    def _trim(self) -> bool:
        site = self.some_site()
        if site is None:
            return False
        self.simulation.note(site.name, "trims")
        site.loop.create_task(site.maintenance.trim())
        site.loop.create_task(self.simulation.finish_deletions(site))
        return True


class Stores(Metadata):
    """See Metadata."""

    name = "metadata stores"

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (action for action in super().actions() if action.name in _STORES)


class SkewedClocks(Clocks):
    """See Clocks. The clocks are off by up to ten minutes."""

    jump_s: ClassVar[float] = SKEW_S


class LostDisks(MetadataGroup):
    """A cluster loses its disk, and with it all metadata, and returns under its name."""

    name = f"{LOSSY} disks"
    share = 0.5

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("disk replaced", 2, self._replace, is_fault=True),)

    def _replace(self) -> bool:
        site = self.some_site()
        if site is None or len(self.world.running_members()) < 2:
            return False
        self.simulation.note(site.name, "its disk is replaced by an empty one")
        self.simulation.replace_disk(site)
        return True


class LateMembers(MetadataGroup):
    """Clusters join, leave, and return with the metadata that they had."""

    name = f"{LOSSY} members"
    share = 0.6
    counted = ("cluster joined at the end",)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("cluster joins or returns", 5, self._join, is_fault=True),
            Action("cluster leaves", 4, self._leave, is_fault=True),
        )

    def heal(self) -> None:
        """Let every cluster join or return."""
        while self._join():
            self.simulation.count("cluster joined at the end")

    def _join(self) -> bool:
        members, sites = self.world.members, self.world.synchronized
        away = [name for name in sites if name not in members]
        if not away:
            return False
        joining = self.chance.choice(away)
        self.simulation.note(joining, "joins")
        self.world.set_members(tuple(name for name in sites if name in (*members, joining)))
        self.simulation.start(sites[joining])
        return True

    def _leave(self) -> bool:
        site, members = self.some_site(), self.world.members
        if site is None or len(members) < 3:
            return False
        self.simulation.note(site.name, "leaves")
        self.world.set_members(tuple(name for name in members if name != site.name))
        self.world.history.left(site)
        self.simulation.kill(site)
        for after_s in DELETED_AFTER_S:
            self.simulation.later(after_s, self._delete)
        for after_s in TRIMMED_AFTER_S:
            self.simulation.later(after_s, self._trim)
        return True

    def _delete(self) -> None:
        """Delete a namespace that the cluster that has left still has."""
        if not self.simulation.is_healed:
            self.simulation.group(Edits).delete_one()

    def _trim(self) -> None:
        """Trim the events of the deletions, so that the cluster that has left can learn of them from snapshots only."""
        if not self.simulation.is_healed:
            for site in self.world.running_members():
                site.loop.create_task(site.maintenance.trim())


class HostileEvents(MetadataGroup):
    """Events that must be refused: of a clock in the future, of a later version, and broken ones."""

    name = "hostile events"
    share = 0.5

    def __init__(self, simulation: Simulation) -> None:
        """Begin with the first publisher."""
        super().__init__(simulation)
        self._numbers = itertools.count(1)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("event of the far future published", 1, lambda: self._publish(self._future), is_fault=True),
            Action("hostile event published", 2, lambda: self._publish(self._hostile), is_fault=True),
        )

    def _publish(self, make: Callable[[SynchronizedSite], bytes]) -> bool:
        site = self.some_site()
        if site is None:
            return False
        name = f"{site.name}.hostile-{next(self._numbers)}"
        loop = MachineLoop(self.simulation.scheduler, name, self.simulation.network)
        event = make(site)
        self.simulation.note(name, f"publishes {event[:200]!r}")
        loop.create_task(_publish(site, name, event))
        return True

    def _future(self, site: SynchronizedSite) -> bytes:
        """Return an event of a cluster whose clock is two hours ahead."""
        now_ms = int(site.clock.now() * 1000)
        edits = {"/message_ttl_in_seconds": [1_000_000, now_ms + FUTURE_MS, 0, "zrh"]}
        return json.dumps(self._event(site, edits)).encode()

    def _hostile(self, site: SynchronizedSite) -> bytes:
        """Return an event that cannot be read or applied."""
        past = [1, 0, "zrh"]
        edits: dict[str, list[Any]] = self.chance.choice(
            (
                {"/properties/hostile": ["1", *past], "/properties": ["1", *past]},
                {"/message_ttl_in_seconds": ["never", *past]},
                {"/message_ttl_in_seconds": [1_000_000, 10**400, 0, "zrh"]},
                {"message_ttl_in_seconds": [1_000_000, *past]},
            )
        )
        event = self._event(site, edits)
        event["version"] = self.chance.choice((1, 1, 2))
        event["eventType"] = self.chance.choice(("Modified", "Snapshot", "Other"))
        return self.chance.choice((json.dumps(event).encode(), json.dumps(event).encode(), b"\xff", b"[]", b""))

    def _event(self, site: SynchronizedSite, edits: dict[str, list[Any]]) -> dict[str, Any]:
        found = [str(each) for tenant in TENANTS for each in site.environment.resources.namespaces.of_tenant(tenant)]
        return {
            "version": 1,
            "eventType": "Modified",
            "resourceType": "Namespaces",
            "resourceName": self.chance.choice(found) if found else "acme/orders",
            "sourceCluster": "zrh",
            "updateTime": int(site.clock.now() * 1000),
            "data": {"edits": edits},
        }


async def _publish(site: SynchronizedSite, name: str, event: bytes) -> None:
    client = PulsarClient(f"pulsar://{site.name}:{PORT}")
    metadata = pb.MessageMetadata(producer_name=name, sequence_id=0, publish_time=1)
    try:
        producer = await client.create_producer(EVENT_TOPIC, name)
        await producer.send(build_entry(metadata, event))
    except (OSError, MagnetarError):
        return  # the attempt failed
    finally:
        client.close()
