"""Invariants of synchronized metadata: agreement with the oracle, and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from magnetar.broker.loop.slices import at_once
from magnetar.metasync import store
from magnetar.sim.metasync.history import documents, record_of, records
from magnetar.sim.metasync.replay import DEFAULTS, Kind, kind_of, own, replay, stamps, units
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.sim.metasync.replay import Change, Expected, Stamp
    from magnetar.sim.metasync.simulation import MetadataSimulation
    from magnetar.sim.metasync.site import SynchronizedSite


class Agreement(Invariant):
    """M: all clusters have the metadata of the oracle, and nothing is left to publish."""

    counted = ("resource that was deleted and exists again", "deleted resource", "change lost with a disk")

    @property
    def world(self) -> MetadataSimulation:
        """Return the simulation."""
        return cast("MetadataSimulation", self.simulation)

    def missing(self) -> str:
        """See Invariant."""
        sites = [site for site in self.world.synchronized.values() if site.is_member]
        for site in sites:
            if not site.running:
                return f"{site.name} is down"
            status = at_once(site.sync.status()) if hasattr(site, "sync") else None
            if status is None or not status.connected:
                return f"the synchronizer of {site.name} is not connected"
            if status.unpublished_events:
                return f"{site.name} has {status.unpublished_events} unpublished events"
        evident = {stamp for site in sites for _, record in records(site.metadata) for stamp in stamps(record)}
        found = {site: documents(site) for site in sites}
        paths = sorted({path for each in found.values() for path in each} | set(self.world.history.changes))
        return next(filter(None, (self._difference(path, found, evident) for path in paths)), "")

    def at_end(self) -> str:
        """Count what happened to resources."""
        for path, changes in sorted(self.world.history.changes.items()):
            kind = kind_of(path)
            assert kind is not None
            if any(change.deleted for change in changes):
                exists = replay(kind, self.world.history.counted(path, set())).exists
                name = "resource that was deleted and exists again" if exists else "deleted resource"
                self.simulation.count(name)
            self.simulation.count("change lost with a disk", sum(each.state.name == "UNCERTAIN" for each in changes))
        return ""

    def _difference(
        self, path: str, found: dict[SynchronizedSite, dict[str, dict[str, Any]]], evident: set[Stamp]
    ) -> str:
        """Return how a document of a cluster differs from the oracle's, or an empty string."""
        kind, history = kind_of(path), self.world.history
        assert kind is not None
        changes = history.counted(path, evident)
        expected = replay(kind, changes)
        for site, documents_there in found.items():
            document = documents_there.get(path)
            if document is None:
                is_gone = (site.name, path) in history.deleted_locally
                if expected.exists and not is_gone:
                    return f"{path} does not exist in {site.name}, but {_last(changes)}"
                continue
            if not expected.exists:
                return f"{path} exists in {site.name}, but {_last(changes)}"
            difference = _differs(kind, document, expected)
            if difference:
                unit, actual, wanted = difference
                about = [change for change in changes if unit in change.units]
                return f"{path} in {site.name} has {unit} {actual} instead of {wanted}: {_last(about)}"
            kept = history.own_fields(site, path)
            if kept is not None and own(kind, document) != kept:
                return f"{path} in {site.name} has {own(kind, document)}, but {kept} was set there"
        return ""


class Bounds(Invariant):
    """M: refused events, records and the outbox stay small."""

    counted = ("event refused", "topic deleted in one cluster only")

    def check(self) -> None:
        """See Invariant."""
        world = cast("MetadataSimulation", self.simulation)
        for site in world.running_members():
            refused = len(site.metadata.children("/magnetar/metadata-sync/refused"))
            if refused > store.REFUSED_MAX:
                self.simulation.checks.violate(f"M: {site.name} keeps {refused} refused events")
            waiting = len(site.metadata.children("/magnetar/metadata-sync/outbox"))
            if waiting > sum(map(len, world.history.changes.values())):
                self.simulation.checks.violate(f"M: {site.name} has {waiting} unpublished events, more than changes")

    def at_end(self) -> str:
        """Check that only known resources have records, and count."""
        world = cast("MetadataSimulation", self.simulation)
        for site in world.running_members():
            for path, _ in records(site.metadata):
                if path not in world.history.changes and "hostile" not in path:
                    return f"{site.name} has a record of {path}, which nobody created: {record_of(site.metadata, path)}"
            self.simulation.count("event refused", at_once(site.sync.status()).refused_events)
        self.simulation.count("topic deleted in one cluster only", len(world.history.deleted_locally))
        return ""


def _differs(kind: Kind, document: dict[str, Any], expected: Expected) -> tuple[str, Any, Any] | None:
    """Return the name of the first value that differs, the value there, and the expected one."""
    actual = DEFAULTS[kind] | units(kind, document)
    wanted = DEFAULTS[kind] | expected.units
    for unit in sorted({**actual, **wanted}):
        if actual.get(unit) != wanted.get(unit):
            return unit, actual.get(unit), wanted.get(unit)
    return None


def _last(changes: list[Change]) -> str:
    last = max(changes, key=lambda change: change.stamp.order, default=None)
    return "nobody changed it" if last is None else str(last)
