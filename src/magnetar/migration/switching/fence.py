"""A fenced topic as its broker describes it, and what is still missing in the other cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from magnetar.migration.known import sum_if_known

if TYPE_CHECKING:
    from collections.abc import Mapping


class Phase(Enum):
    """How far clients are shut out."""

    SETTLING = "settling"
    """Publishes and dispatch have ended. Acknowledgements are accepted."""
    CLOSED = "closed"
    """Acknowledgements are refused, too."""
    FINAL = "final"
    """As CLOSED, without a lease."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence of a topic."""

    migration: str
    epoch: int
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A durable subscription."""

    unacknowledged: int | None = 0
    """Messages that its consumers hold and have not acknowledged; None: unknown."""
    digest: str | None = None
    """Of the unacknowledged messages, by origin; None: not asked for."""
    is_replicated: bool = True
    unconfirmed: Mapping[str, int | None] = field(default_factory=dict)
    """By other cluster: acknowledged entries that it has not confirmed; None: unknown."""
    age_s: Mapping[str, float | None] = field(default_factory=dict)
    """By other cluster: age of the oldest acknowledgement that it has not confirmed; None: unknown."""


@dataclass(frozen=True, slots=True)
class Link:
    """The link to another cluster."""

    backlog: int | None
    """Entries that the other cluster has not confirmed; None: unknown."""
    parked: str | None = None
    """Reason why the pipeline has parked the link."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic, with or without a fence."""

    fence: Fence | None = None
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)

    @property
    def unacknowledged(self) -> int | None:
        """Messages that consumers hold and have not acknowledged; None: unknown."""
        return sum_if_known(each.unacknowledged for each in self.subscriptions.values())


def topic_state(found: Mapping[str, Any]) -> TopicState:
    """Parse the answer of a broker, which leaves out what is unknown."""
    fence = found.get("fence")
    return TopicState(
        None if fence is None else Fence(fence["migration"], fence["epoch"], Phase(fence["phase"])),
        {name: _subscription(each) for name, each in (found.get("subscriptions") or {}).items()},
        {
            name: Link(each.get("backlog"), each.get("parkedReason"))
            for name, each in (found.get("links") or {}).items()
        },
    )


def _subscription(found: Mapping[str, Any]) -> Subscription:
    return Subscription(
        unacknowledged=found["unacknowledgedMessages"],
        digest=found.get("digest"),
        is_replicated=found["isReplicated"],
        unconfirmed=found.get("progressUnconfirmed") or {},
        age_s=found.get("progressAgeSeconds") or {},
    )


def not_carried(state: TopicState, target: str) -> str:
    """Return which entries or acknowledgements of a closed topic the other cluster lacks; empty: none."""
    link = state.links.get(target)
    if link is None:
        return f"it has no link to {target}"
    if link.parked:
        return f"its link is parked: {link.parked}"
    if link.backlog != 0:
        return f"{_number(link.backlog)} entries are not confirmed by {target}"
    for name, each in sorted(state.subscriptions.items()):
        if each.unconfirmed.get(target) != 0 or each.age_s.get(target) != 0:
            left = _number(each.unconfirmed.get(target))
            return f"{target} has not confirmed {left} acknowledgements of {name}"
    return ""


def difference(here: TopicState, there: TopicState) -> str:
    """Return a subscription of a closed topic that the other cluster does not have in the same state; empty: none."""
    names = here.subscriptions.keys() | there.subscriptions.keys()
    for name in sorted(names):
        ours, theirs = here.subscriptions.get(name), there.subscriptions.get(name)
        if ours is None or theirs is None:
            return f"only one of the clusters has the subscription {name}"
        if ours.digest is None or ours.digest != theirs.digest:
            return f"the acknowledgements of {name} differ"
    return ""


def _number(count: int | None) -> str:
    return "an unknown number of" if count is None else f"{count:,}"
