"""Where an entry is, by its position at its origin, and the origin of a local position. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.base.position import Position
    from magnetar.geo.origins.index import OriginIndex


class State(StrEnum):
    """The state of an entry in a cluster."""

    PRESENT = "present"
    TRIMMED = "trimmed"
    """The cluster had it, or an entry after it, and has deleted it."""
    NOT_ARRIVED = "notArrived"
    """The cluster has no entry of the origin at or after it."""
    NOT_FOR_THIS_CLUSTER = "notForThisCluster"
    """The cluster has later entries of the origin: its link does not carry this one."""
    ABSENT = "absent"
    """No entry was published at this position, or its cluster has lost it."""


class Location(NamedTuple):
    """The place of an entry in a cluster."""

    state: State
    position: Position | None = None
    """Its local position if it is present."""


class Published(NamedTuple):
    """The origin of the entry at a local position; ``cluster`` and ``position`` are None unless it is present."""

    state: State
    cluster: str | None = None
    position: Position | None = None


class Found(NamedTuple):
    """The answer of a cluster."""

    location: Location
    replicate_to: Sequence[str] | None = None
    """The clusters to which the entry is replicated, empty for all; None if it is not known."""


def location_of(index: OriginIndex, cluster: str, position: Position, end: Position) -> Location:
    """Return where the entry is that ``cluster`` published at ``position``; ``end`` is the newest durable entry here.

    A position that the cluster did not use is ``TRIMMED`` if it is below the trimmed entries, since these are not known
    one by one.
    """
    local = index.local_of(cluster, position)
    if local is not None and local <= end:
        return Location(State.PRESENT, local)
    last, (trimmed, following) = index.last_position(cluster), index.around(cluster, position)
    if trimmed is not None and position <= trimmed:
        return Location(State.TRIMMED)
    if cluster == index.local_cluster:
        return Location(State.ABSENT)
    if local is not None or last is None or position > last:
        return Location(State.NOT_ARRIVED)
    assert following is not None, "a position before the last one, which is neither held nor trimmed"
    return Location(State.ABSENT if position > following.floor else State.NOT_FOR_THIS_CLUSTER)


def origin_at(
    index: OriginIndex, local: Position, first: Position, end: Position, first_ledger_id: int | None
) -> Published:
    """Return the origin of the entry at ``local``; ``first`` and ``end`` bound the durable entries, both inclusive.

    ``first_ledger_id`` is that of the first ledger that the topic ever had, None if it is not known.
    """
    found = index.origin_of(local) if first <= local <= end else None
    if found is not None:
        return Published(State.PRESENT, *found)
    is_trimmed = local < first and local.ledger_id >= (first_ledger_id or 0)
    return Published(State.TRIMMED if is_trimmed else State.ABSENT)


def compared(origin: str, answers: Mapping[str, Found]) -> dict[str, Location]:
    """Return the places of an entry that ``origin`` published, with the answers of the clusters that answered.

    A cluster without the entry does not know whether it will come. Clusters with the entry know for whom it is, and the
    origin knows whether it exists.
    """
    wanted = next((each.replicate_to for each in answers.values() if each.replicate_to), None)
    is_anywhere = any(each.location.state is State.PRESENT for each in answers.values())
    exists = is_anywhere or origin not in answers or answers[origin].location.state is not State.ABSENT
    found: dict[str, Location] = {}
    for cluster, (location, _) in answers.items():
        state = location.state
        if wanted is not None and cluster not in (origin, *wanted) and state is not State.PRESENT:
            state = State.NOT_FOR_THIS_CLUSTER
        elif state is State.NOT_ARRIVED and not exists:
            state = State.ABSENT
        found[cluster] = location._replace(state=state)
    return found
