"""The step *progress*: subscriptions are replicated, until the target has their acknowledgements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.admin.nouns.noun import Json
    from magnetar.migration.running.pair import Pair
    from magnetar.migration.sides import Side


class ProgressState(NamedTuple):
    """How far a replicated subscription has come."""

    unconfirmed: int | None
    """Acknowledged entries that the target has not confirmed; None: unknown."""
    age_s: float | None
    """Age of the oldest of them that was acknowledged since the replication began; None: unknown."""
    refusal: str
    """Why the target cannot have its exact progress; empty: it can."""


def settings_of(pair: Pair, name: str) -> dict[str, bool]:
    """Return the durable subscriptions of a topic of the source, and whether each is replicated."""
    return {name: each["isReplicated"] for name, each in _durable(pair, name).items()}


def replicate(pair: Pair, name: str, subscriptions: Iterable[str]) -> None:
    """Replicate subscriptions of a topic of the source."""
    _set(pair.source, name, dict.fromkeys(subscriptions, True))


def restore(side: Side, name: str, before: Mapping[str, bool]) -> None:
    """Give subscriptions of a topic of a cluster their former settings; those that were deleted are left out."""
    _set(side, name, before)


def progress_of(pair: Pair, name: str, wanted: Iterable[str]) -> dict[str, ProgressState]:
    """Return how far the progress of subscriptions of a topic has come to the target; deleted ones are left out."""
    known = _durable(pair, name)
    return {each: _progress(known[each], pair.target_name) for each in wanted if each in known}


def complete_target(pair: Pair, name: str, wanted: Iterable[str]) -> str:
    """Give subscriptions of the target the properties that those of the source have; return one that it lacks."""
    topic = TopicName.parse(name)
    here = _durable(pair, name)
    with pair.target.answers():
        there = (if_present(pair.target.client.topics.stats, topic) or {"subscriptions": {}})["subscriptions"]
        for subscription in wanted:
            if subscription not in here:
                continue
            if subscription not in there:
                return subscription
            properties, known = (each[subscription].get("subscriptionProperties") or {} for each in (here, there))
            if properties != known:
                pair.target.client.subscriptions.set_properties(topic, subscription, properties)
    return ""


def _progress(stats: Json, target: str) -> ProgressState:
    refusal = (stats.get("progressUnavailable") or {}).get(target, "")
    if not stats["isReplicated"]:
        refusal = "its replication is forbidden"
    unconfirmed, age_s = (
        (stats.get(field) or {}).get(target) for field in ("progressUnconfirmed", "progressAgeSeconds")
    )
    return ProgressState(unconfirmed, age_s, refusal)


def _durable(pair: Pair, name: str) -> dict[str, Json]:
    """Return the statistics of the durable subscriptions of a topic of the source; none if it was deleted."""
    return _durable_in(pair.source, name)


def _durable_in(side: Side, name: str) -> dict[str, Json]:
    with side.answers():
        stats = if_present(side.client.topics.stats, TopicName.parse(name)) or {"subscriptions": {}}
    return {name: each for name, each in sorted(stats["subscriptions"].items()) if each.get("isDurable", True)}


def _set(side: Side, name: str, wanted: Mapping[str, bool]) -> None:
    """Set whether subscriptions are replicated, where it differs."""
    topic, known = TopicName.parse(name), {sub: each["isReplicated"] for sub, each in _durable_in(side, name).items()}
    with side.answers():
        for subscription, replicated in wanted.items():
            if known.get(subscription, replicated) != replicated:
                if_present(side.client.subscriptions.set_replicated, topic, subscription, replicated=replicated)
