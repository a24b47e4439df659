"""The scenario of a seed: its configuration and the enabled groups of actions, drawn once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

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
"""The types with several active consumers. They do not support cumulative acknowledgement."""

MANY_SHARE = 0.06
"""Minimum share of the runs with four topics or more."""

LONG_FLUSH_MS = 300
"""``acknowledgmentFlushIntervalMs`` of a third of the runs; a topic can be unloaded within that time."""

STEPS = 120
"""Number of steps of a run with one topic. Runs with more topics have fewer, so that all take about as long."""


class Group(Protocol):
    """The interface of a group of actions to a scenario."""

    name: str
    share: float
    """The share of runs in which it is enabled, 0 to 1."""


@dataclass(frozen=True, slots=True)
class LagPolicy:
    """The lag limit: the maximum number of entries at risk, and the number of other clusters that make one safe."""

    messages: int
    copies: int


@dataclass(frozen=True, slots=True)
class MarkersPlan:
    """The settings of snapshots in mode ``markers``."""

    cached_max: int
    """Maximum number of cached snapshots of a subscription."""
    without_after_s: float
    """Seconds after which snapshots exclude an absent cluster; 0: never."""

    @property
    def settings(self) -> dict[str, Any]:
        """Return the configuration of the mode."""
        return {
            "replicatedSubscriptionSync": "markers",
            "replicatedSubscriptionsSnapshotFrequencyMillis": 100,
            "replicatedSubscriptionsSnapshotTimeoutSeconds": 2,
            "replicatedSubscriptionsSnapshotMaxCachedPerSubscription": self.cached_max,
            "replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds": self.without_after_s,
        }


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that exists from the beginning; 0 partitions: not partitioned."""

    name: TopicName
    partitions: int

    @property
    def parts(self) -> tuple[TopicName, ...]:
        """Return the topics with a log: the partitions, or the topic itself."""
        return tuple(map(self.name.partition, range(self.partitions))) if self.partitions else (self.name,)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The complete configuration of a run."""

    seed: int
    clusters: tuple[str, ...]
    plans: tuple[TopicPlan, ...]
    subscriptions: tuple[str, ...]
    """The subscriptions of every topic; see SUBSCRIPTION_TYPES."""
    steps: int
    """Number of actions before the liveness phase."""
    fault_share: float
    """The share of faults among the actions, 0 to 1."""
    weights: tuple[tuple[str, float], ...]
    """The enabled groups of actions, with the factors of their weights."""
    deduplication: bool
    lag: LagPolicy | None
    """The lag limit; None: no limit."""
    replicate_to: bool
    """Whether producers choose the clusters for some messages."""
    replicated: bool
    """Whether subscriptions are replicated."""
    sync: bool = True
    """Whether entries are synced before they are confirmed (``journalSyncData``)."""
    markers: MarkersPlan | None = None
    """The settings of mode ``markers`` (``replicatedSubscriptionSync``); None: mode ``exact``."""
    metadata_on_disk: bool = False
    """Whether the metadata store is on the log's disk, and fails with it."""
    ack_flush_ms: int = 10
    """Maximum delay of writing acknowledgements without a receipt (``acknowledgmentFlushIntervalMs``)."""

    @property
    def topics(self) -> tuple[TopicName, ...]:
        """Return the topics with a log, including partitions."""
        return tuple(topic for plan in self.plans for topic in plan.parts)

    @property
    def policies(self) -> Policies:
        """Return the initial policies of the namespace, in all clusters."""
        policies = Policies(replication_clusters=list(self.clusters), deduplicationEnabled=self.deduplication)
        if self.lag is not None:
            policies.max_at_risk_messages, policies.at_risk_copies = self.lag.messages, self.lag.copies
        return policies

    @property
    def all_features(self) -> Iterable[str]:
        """Return all names that ``features`` can yield."""
        return FEATURES

    def weight(self, group: str) -> float:
        """Return the factor of a group of actions; 0 if it is not enabled."""
        return dict(self.weights).get(group, 0.0)

    def features(self) -> Iterable[str]:
        """Yield the features of the scenario that the coverage table counts."""
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
        """Return a summary in one line."""
        plans = " ".join(
            f"{plan.name.local_name}{f'({plan.partitions})' if plan.partitions else ''}" for plan in self.plans
        )
        lag = "" if self.lag is None else f", at risk at most {self.lag.messages} in {self.lag.copies} others"
        late = ", acknowledgements written late" if self.ack_flush_ms == LONG_FLUSH_MS else ""
        weights = " ".join(f"{name}*{weight:g}" for name, weight in self.weights)
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
            f"{self.fault_share:.0%} faults; {weights}"
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
"""All names that ``Scenario.features`` can yield."""


def draw(seed: int, groups: Iterable[Group], clusters: int | None = None, steps: int | None = None) -> Scenario:
    """Draw the scenario of a seed; ``clusters`` and ``steps`` override the drawn values."""
    chance = Random(f"scenario {seed}")
    count = chance.choice((3, 3, 3, 3, 4, 4, 5, 2))
    plans = _plans(chance)
    topics = sum(len(plan.parts) for plan in plans)
    most = 3 if topics == 1 else 2
    names = list(SUBSCRIPTION_TYPES)
    subscriptions = sorted(chance.sample(names, chance.randint(1 if topics > 1 else 2, most)), key=names.index)
    lag = LagPolicy(chance.choice((0, 1, 2, 5)), chance.choice((1, 1, 2))) if chance.random() < 0.3 else None
    weights = [(group.name, chance.choice((0.5, 1.0, 1.0, 2.0))) for group in groups if chance.random() < group.share]
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
        drawn = replace(drawn, replicate_to=True)  # entries that an update must not acknowledge
    drawn = replace(drawn, ack_flush_ms=chance.choice((10, 10, LONG_FLUSH_MS)))
    if clusters is not None:
        drawn = replace(drawn, clusters=CLUSTER_NAMES[:clusters])
    if steps is not None:
        drawn = replace(drawn, steps=steps)
    if drawn.lag is not None and drawn.lag.copies >= len(drawn.clusters):
        drawn = replace(drawn, lag=replace(drawn.lag, copies=len(drawn.clusters) - 1))
    return drawn


def _plans(chance: Random) -> tuple[TopicPlan, ...]:
    """Draw the topics: mostly one, which is cheapest; otherwise a partitioned one, or several."""
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
