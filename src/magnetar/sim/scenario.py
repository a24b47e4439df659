"""The scenario of a seed: what its world contains and which kinds of happenings are enabled, drawn once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Protocol

from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policies import Policies
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLUSTER_NAMES = ("ewr", "jfk", "lga", "ord", "sfo")

NAMESPACE = NamespaceName("public", "default")

SUBSCRIPTION_TYPES: Mapping[str, pb.CommandSubscribe.SubType.ValueType] = {
    "worker": pb.CommandSubscribe.Shared,
    "ledger": pb.CommandSubscribe.Failover,
    "keys": pb.CommandSubscribe.Key_Shared,
    "alone": pb.CommandSubscribe.Exclusive,
}
"""The type of each subscription, by name."""

SHARING = frozenset({pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared})
"""The types whose consumers share the messages: none of them can acknowledge cumulatively."""

MANY_SHARE = 0.06
"""The share of worlds that have four topics or more in any case."""

LONG_FLUSH_MS = 300
"""``acknowledgmentFlushIntervalMs`` of a third of the worlds; a topic can be unloaded meanwhile."""

STEPS = 120
"""Steps of a world with one topic. A world with more topics has fewer, so that all take about as long."""


class Kind(Protocol):
    """What a scenario has to know of a kind of happening."""

    name: str
    share: float
    """The share of worlds in which it is enabled, 0 to 1."""


@dataclass(frozen=True, slots=True)
class LagPolicy:
    """How many entries may be at risk, and how many other clusters make one safe."""

    messages: int
    copies: int


@dataclass(frozen=True, slots=True)
class MarkersPlan:
    """How clusters take snapshots in mode ``markers``."""

    cached_max: int
    """Snapshots that are kept for a subscription."""
    without_after_s: float
    """How long a cluster may be away before it is left out; 0: for ever."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to begin with; 0 partitions: not partitioned."""

    name: TopicName
    partitions: int

    @property
    def parts(self) -> tuple[TopicName, ...]:
        """The topics that have a log: the partitions, or the topic itself."""
        return tuple(map(self.name.partition, range(self.partitions))) if self.partitions else (self.name,)


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that distinguishes one world from another before anything happens."""

    seed: int
    clusters: tuple[str, ...]
    plans: tuple[TopicPlan, ...]
    subscriptions: tuple[str, ...]
    """Of every topic; see SUBSCRIPTION_TYPES."""
    steps: int
    """Actions before the world is left in peace."""
    fault_share: float
    """The share of faults among the actions, 0 to 1."""
    weights: tuple[tuple[str, float], ...]
    """The enabled kinds of happenings, with what their actions' weights are multiplied by."""
    deduplication: bool
    lag: LagPolicy | None
    """The bound on what is at risk; None: there is none."""
    replicate_to: bool
    """Whether producers choose the clusters for some messages."""
    replicated: bool
    """Whether subscriptions are replicated."""
    sync: bool = True
    """Whether entries are synced before they are reported (``journalSyncData``)."""
    markers: MarkersPlan | None = None
    """Of mode ``markers`` (``replicatedSubscriptionSync``); None: progress is exact."""
    metadata_on_disk: bool = False
    """Whether the metadata store is on the disk of the log, and fails with it."""
    ack_flush_ms: int = 10
    """For how long acknowledgements without a receipt may wait to be written (``acknowledgmentFlushIntervalMs``)."""

    @property
    def topics(self) -> tuple[TopicName, ...]:
        """The topics that have a log, partitions included."""
        return tuple(topic for plan in self.plans for topic in plan.parts)

    @property
    def policies(self) -> Policies:
        """The namespace's policies in the beginning, in all clusters."""
        policies = Policies(replication_clusters=list(self.clusters), deduplicationEnabled=self.deduplication)
        if self.lag is not None:
            policies.max_at_risk_messages, policies.at_risk_copies = self.lag.messages, self.lag.copies
        return policies

    def weight(self, kind: str) -> float:
        """The factor of a kind of happening; 0 where it is not enabled."""
        return dict(self.weights).get(kind, 0.0)

    def features(self) -> Iterable[str]:
        """What the coverage table counts of a world itself."""
        yield f"{len(self.clusters)} clusters"
        yield f"{min(len(self.topics), 4)}{' or more' if len(self.topics) > 3 else ''} topics"
        if any(plan.partitions for plan in self.plans):
            yield "partitioned topic"
        yield f"deduplication {'on' if self.deduplication else 'off'}"
        if self.lag is not None:
            yield "bound on what is at risk"
        if self.replicate_to:
            yield "messages to chosen clusters"
        yield f"subscriptions {'replicated' if self.replicated else 'not replicated'}"
        if not self.sync:
            yield "entries not synced"
        if self.ack_flush_ms == LONG_FLUSH_MS:
            yield "acknowledgements written late"
        if self.metadata_on_disk:
            yield "metadata store on the disk of the log"
        if self.markers is not None:
            yield "subscriptions replicated by markers"
            if self.markers.without_after_s:
                yield "clusters left out of snapshots"
        for name in self.subscriptions:
            yield f"subscription type {pb.CommandSubscribe.SubType.Name(SUBSCRIPTION_TYPES[name])}"

    def __str__(self) -> str:
        """One line for people."""
        plans = " ".join(
            f"{plan.name.local_name}{f'({plan.partitions})' if plan.partitions else ''}" for plan in self.plans
        )
        lag = "" if self.lag is None else f", at risk at most {self.lag.messages} in {self.lag.copies} others"
        late = ", acknowledgements written late" if self.ack_flush_ms == LONG_FLUSH_MS else ""
        kinds = " ".join(f"{name}*{weight:g}" for name, weight in self.weights)
        markers = ""
        if self.markers is not None:
            markers = f", markers with {self.markers.cached_max} snapshots"
            markers += f", clusters left out after {self.markers.without_after_s:g} s" * (
                self.markers.without_after_s > 0
            )
        return (
            f"clusters {' '.join(self.clusters)}; topics {plans}; subscriptions {' '.join(self.subscriptions)} "
            f"{'' if self.replicated else '(not replicated)'}; "
            f"deduplication {'on' if self.deduplication else 'off'}{lag}"
            f"{', messages to chosen clusters' if self.replicate_to else ''}"
            f"{'' if self.sync else ', entries not synced'}{markers}{late}; {self.steps} steps, "
            f"{self.fault_share:.0%} faults; {kinds}"
        )


FEATURES = (
    *("2 clusters", "3 clusters", "4 clusters", "5 clusters"),
    *("1 topics", "2 topics", "3 topics", "4 or more topics", "partitioned topic"),
    *("deduplication on", "deduplication off", "bound on what is at risk", "messages to chosen clusters"),
    *("subscriptions replicated", "subscriptions not replicated", "entries not synced"),
    "acknowledgements written late",
    "metadata store on the disk of the log",
    *("subscriptions replicated by markers", "clusters left out of snapshots"),
    *(f"subscription type {pb.CommandSubscribe.SubType.Name(each)}" for each in SUBSCRIPTION_TYPES.values()),
)
"""All that ``Scenario.features`` may yield."""


def draw(seed: int, kinds: Iterable[Kind], clusters: int | None = None, steps: int | None = None) -> Scenario:
    """Draw the scenario of a seed; ``clusters`` and ``steps`` replace what the seed has."""
    chance = Random(f"scenario {seed}")
    count = chance.choice((3, 3, 3, 3, 4, 4, 5, 2))
    plans = _plans(chance)
    topics = sum(len(plan.parts) for plan in plans)
    most = 3 if topics == 1 else 2
    names = list(SUBSCRIPTION_TYPES)
    subscriptions = sorted(chance.sample(names, chance.randint(1 if topics > 1 else 2, most)), key=names.index)
    lag = LagPolicy(chance.choice((0, 1, 2, 5)), chance.choice((1, 1, 2))) if chance.random() < 0.3 else None
    weights = [(kind.name, chance.choice((0.5, 1.0, 1.0, 2.0))) for kind in kinds if chance.random() < kind.share]
    drawn = Scenario(
        seed=seed,
        clusters=CLUSTER_NAMES[:count],
        plans=plans,
        subscriptions=tuple(subscriptions),
        steps=STEPS if topics == 1 else 100 if topics < 4 else 70,
        fault_share=chance.choice((0.08, 0.15, 0.15, 0.25)),
        weights=tuple(weights),
        deduplication=chance.random() < 0.8,
        lag=lag,
        replicate_to=chance.random() < 0.25,
        replicated=chance.random() < 0.95,
        sync=chance.random() >= 0.3,
        markers=MarkersPlan(chance.choice((3, 30)), chance.choice((0.0, 1.0))) if chance.random() < 0.3 else None,
    )
    drawn = replace(drawn, metadata_on_disk=chance.random() < 0.4)
    if drawn.markers is not None and chance.random() < 0.6:
        drawn = replace(drawn, replicate_to=True)  # what an update must not acknowledge
    drawn = replace(drawn, ack_flush_ms=chance.choice((10, 10, LONG_FLUSH_MS)))
    if clusters is not None:
        drawn = replace(drawn, clusters=CLUSTER_NAMES[:clusters])
    if steps is not None:
        drawn = replace(drawn, steps=steps)
    if drawn.lag is not None and drawn.lag.copies >= len(drawn.clusters):
        drawn = replace(drawn, lag=replace(drawn.lag, copies=len(drawn.clusters) - 1))
    return drawn


def _plans(chance: Random) -> tuple[TopicPlan, ...]:
    """Mostly one topic, which is cheapest; else a partitioned one, or several."""
    orders, refunds, flights = (TopicName.parse(f"persistent://{NAMESPACE}/{name}") for name in _TOPIC_NAMES)
    if chance.random() < MANY_SHARE:
        return (TopicPlan(orders, chance.choice((0, 2))), TopicPlan(refunds, 2), TopicPlan(flights, 0))
    match chance.choice(("one", "one", "one", "partitioned", "several")):
        case "one":
            return (TopicPlan(orders, 0),)
        case "partitioned":
            return (TopicPlan(orders, chance.choice((1, 2, 2, 3))),)
    return (TopicPlan(orders, 0), TopicPlan(refunds, chance.choice((0, 0, 2))), TopicPlan(flights, 0))[
        : chance.choice((2, 2, 3))
    ]


_TOPIC_NAMES = ("orders", "refunds", "flights")
