"""The scenario of a seed of metadata: which clusters, edits and faults a world has."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from magnetar.base.names import NamespaceName
from magnetar.metadata.policies import Policies
from magnetar.sim.scenario import CLUSTER_NAMES, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.sim.scenario import Group

EVENT_NAMESPACE = NamespaceName("pulsar", "metadata")
EVENT_TOPIC = f"persistent://{EVENT_NAMESPACE}/events"

FAULTS = 25
"""Average number of faults of a world with many edits."""

ACTED_S = 20.0
"""Average virtual seconds of the edits and faults of a world."""

LOSSY = "lossy"
"""Name prefix of the groups that lose events, which only snapshots repair."""


@dataclass(frozen=True, slots=True)
class MetadataScenario(Scenario):
    """See Scenario. It has no topics but the event topic and those that administration creates."""

    snapshot_s: float = 0.0
    """Virtual seconds between two snapshots; 0: none, and then no fault loses events."""
    members: tuple[str, ...] = ()
    """The clusters that are there from the beginning; the others join later."""

    @property
    def policies(self) -> Policies:
        """Return the policies of ``public/default``, which each cluster creates at its first start."""
        return Policies(replication_clusters=list(self.clusters))

    @property
    def step_s(self) -> float:
        """Return the average virtual seconds between two actions."""
        return ACTED_S / self.steps

    @property
    def all_features(self) -> Iterable[str]:
        """See Scenario."""
        return _FEATURES

    def features(self) -> Iterable[str]:
        """See Scenario."""
        yield f"{len(self.members)} clusters"
        if self.members != self.clusters:
            yield "a cluster that joins"
        yield _edits(self.steps)
        yield "snapshots" if self.snapshot_s else "no snapshots"
        yield f"deduplication {'on' if self.deduplication else 'off'}"
        if not self.sync:
            yield "entries not synced"
        if self.metadata_on_disk:
            yield "metadata store on the disk of the log"

    def __str__(self) -> str:
        """Return a summary in one line."""
        late = [name for name in self.clusters if name not in self.members]
        weights = " ".join(f"{name}*{weight:g}" for name, weight in self.weights)
        return (
            f"clusters {' '.join(self.members)}{''.join(f', {name} joins' for name in late)}; "
            f"{f'snapshots every {self.snapshot_s:g} s' if self.snapshot_s else 'no snapshots'}; "
            f"deduplication {'on' if self.deduplication else 'off'}{'' if self.sync else ', entries not synced'}"
            f"{', metadata on the disk of the log' * self.metadata_on_disk}; "
            f"{self.steps} steps, {self.fault_share:.0%} faults; {weights}"
        )


_SIZES = (40, 100, 300, 1000)
"""Numbers of steps: edits and faults."""


def _edits(steps: int) -> str:
    return next((f"up to {size} steps" for size in _SIZES if steps <= size), "more steps")


_FEATURES = (
    *("2 clusters", "3 clusters", "4 clusters", "a cluster that joins"),
    *(_edits(size) for size in _SIZES),
    *("snapshots", "no snapshots", "deduplication on", "deduplication off", "entries not synced"),
    "metadata store on the disk of the log",
)


def draw(seed: int, groups: Iterable[Group], clusters: int | None = None, steps: int | None = None) -> MetadataScenario:
    """Draw the scenario of a seed; ``clusters`` and ``steps`` override the drawn values."""
    chance = Random(f"metadata scenario {seed}")
    # Always drawn: a given value must not change the values after it.
    drawn = chance.choice((3, 3, 3, 4, 2)), chance.choices(_SIZES, (40, 40, 15, 5))[0]
    count, size = clusters or drawn[0], steps or drawn[1]
    snapshot_s = chance.choice((0.0, 1.0, 3.0, 12.0))
    joins = bool(snapshot_s) and chance.random() < 0.4
    is_lossy = bool(snapshot_s) and chance.random() < 0.7
    weights = [
        (group.name, chance.choice((0.5, 1.0, 1.0, 2.0)))
        for group in groups
        if chance.random() < group.share and (is_lossy or not group.name.startswith(LOSSY))
    ]
    names = CLUSTER_NAMES[: count + joins]
    return MetadataScenario(
        seed=seed,
        clusters=names,
        plans=(),
        subscriptions=(),
        steps=size,
        fault_share=min(chance.choice((0.1, 0.2, 0.3)), FAULTS / size),
        weights=tuple(weights),
        deduplication=chance.random() < 0.5,
        lag=None,
        replicate_to=False,
        replicated=False,
        sync=chance.random() < 0.7 or not is_lossy,
        metadata_on_disk=chance.random() < 0.3,
        snapshot_s=snapshot_s,
        members=names[:count],
    )
