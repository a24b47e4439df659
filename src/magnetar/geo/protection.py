"""The protection status of a subscription: whether its consumers could continue in another cluster now. Pure.

A subscription is *unprotected* if its progress is not replicated, *at risk* if a cluster lacks something or would lack
later changes, and *protected* if every other cluster has confirmed everything. Changes younger than a tolerance count
as arrived, because changes are always in flight. The worst status towards any cluster is the status of the
subscription.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.geo.progress.confirmations import Unconfirmed


class Status(StrEnum):
    """The status of a subscription, from best to worst."""

    PROTECTED = "protected"
    AT_RISK = "at risk"
    UNPROTECTED = "unprotected"


_MARKERS = (
    "acknowledgements are carried by snapshots (PIP-33): what was acknowledged since the last one, and what was "
    "acknowledged out of order, is repeated there"
)
_SEARCHING = "the messages that it published before it lost its data are still being searched for"
_UNKNOWN_CUSTODY = "which messages of clusters that have left the namespace are there is not known yet"
_DAMAGED = (
    "messages that it published before it lost its data are damaged here and were not sent back to it; whether it "
    "got them from another cluster is not known"
)
_SEVERITY = {status: severity for severity, status in enumerate(Status)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressFacts:
    """Facts about the acknowledgements sent to one cluster. Times are seconds since the epoch."""

    by_markers: bool = False
    """Whether snapshots of PIP-33 carry them, which give no feedback about the cluster's state."""
    unavailable: str = ""
    """Why the cluster does not support them; empty if it does."""
    down_since: float | None = None
    failure: str = ""
    unconfirmed: Unconfirmed | None
    """None: the cluster has not confirmed a full state since ``observed_since``, so its state is unknown."""
    steady_since: float
    """Time at which it last caught up after a loss or a delay, or first confirmed a full state."""
    is_first: bool
    """Whether ``steady_since`` is the first confirmation: then the state may have been steady before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """Facts about the messages sent to one cluster."""

    uncarried_since: float | None = None
    """Time since which no task carries them; None while one does."""
    unknown_since: float | None = None
    """Time since which the entries in the cluster are unknown; None while they are known."""
    entries: int = 0
    """Number of entries published here and unconfirmed there; a lower bound while the cluster's entries are unknown."""
    oldest_appended_at: float | None = None
    """Time at which the oldest of them became durable here; None if there is none or the time was not recorded."""
    is_oldest_exact: bool = True
    """Whether ``oldest_appended_at`` is exact; otherwise the entry may have become durable earlier."""
    in_custody: int | None = 0
    """Number of entries in the custody of this cluster that the other one lacks; None: unknown."""
    steady_since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFacts:
    """All facts about one other cluster."""

    progress: ProgressFacts
    data: DataFacts
    lost: int | None = None
    """Number of entries that the cluster published, lost with its data and did not get back, and the subscription has
    not acknowledged; None while unknown.
    """
    is_searching: bool = False
    """Whether the number may be unknown because these entries are still being searched for."""
    is_damaged: bool = False
    """Whether the number may be unknown because some of these entries are damaged here and were not sent back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts about one subscription."""

    unprotected_because: str
    """Why its progress is not replicated; empty if it is sent to ``peers``."""
    unprotected_since: float
    unprotected_at_least: bool
    """Whether that may have lasted longer than known."""
    observed_since: float
    """Time at which this broker loaded the topic."""
    peers: Mapping[str, PeerFacts]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A status with its reasons and the time of its beginning."""

    status: Status
    since: float
    at_least: bool = False
    """Whether the status may have begun earlier: the time before the broker's start is unknown."""
    reasons: tuple[str, ...] = ()
    peers: Mapping[str, Judgement] = field(default_factory=dict)


def judge(facts: Facts, now: float, tolerance_s: float) -> Judgement:
    """Return the status of the subscription at ``now``."""
    if facts.unprotected_because:
        return Judgement(
            Status.UNPROTECTED, facts.unprotected_since, facts.unprotected_at_least, (facts.unprotected_because,)
        )
    peers = {
        cluster: _judge_peer(cluster, facts.peers[cluster], facts.observed_since, now, tolerance_s)
        for cluster in sorted(facts.peers)
    }
    worst = max((each.status for each in peers.values()), key=_SEVERITY.__getitem__)
    deciding = [each for each in peers.values() if each.status is worst]
    # Protected since the last cluster caught up, and otherwise since the first one fell behind.
    first, last = min(deciding, key=_since), max(deciding, key=_since)
    decisive = last if worst is Status.PROTECTED else first
    reasons = tuple(reason for each in peers.values() for reason in each.reasons)
    return Judgement(worst, decisive.since, decisive.at_least, reasons, peers)


def _since(judgement: Judgement) -> float:
    return judgement.since


def _judge_peer(cluster: str, peer: PeerFacts, observed_since: float, now: float, tolerance_s: float) -> Judgement:
    progress, data = peer.progress, peer.data
    if progress.unavailable and not progress.by_markers:
        since = progress.steady_since
        return Judgement(Status.UNPROTECTED, since, progress.is_first, (f"{cluster}: {progress.unavailable}",))
    risks = [*_progress_risks(progress, observed_since, now), *_data_risks(data, observed_since, now)]
    if peer.lost:
        reason = f"{peer.lost} messages that it published before it lost its data were not sent back to it yet"
        risks.append(_risk(observed_since, reason, at_least=True))
    elif peer.lost is None and peer.is_searching:
        risks.append(_risk(observed_since, _SEARCHING, at_least=True))
    elif peer.lost is None and peer.is_damaged:
        risks.append(_risk(observed_since, _DAMAGED, at_least=True))
    # An unknown state counts as a risk at once.
    risks = [risk for risk in risks if risk.at_least or risk.since <= now - tolerance_s]
    if not risks:
        since = max(progress.steady_since, data.steady_since)
        return Judgement(Status.PROTECTED, since, progress.is_first and since == progress.steady_since)
    first = min(risks, key=_since)
    reasons = tuple(f"{cluster}: {reason}" for risk in risks for reason in risk.reasons)
    return Judgement(Status.AT_RISK, first.since, first.at_least, reasons)


def _progress_risks(facts: ProgressFacts, observed_since: float, now: float) -> list[Judgement]:
    risks: list[Judgement] = []
    if facts.by_markers:
        return [_risk(facts.steady_since, _MARKERS, at_least=True)]
    if facts.down_since is not None:
        reason = f"the progress link is down{f' ({facts.failure})' if facts.failure else ''}"
        risks.append(_risk(facts.down_since, reason, at_least=facts.unconfirmed is None))
    if facts.unconfirmed is None:
        reason = "what it lacks of the acknowledgements is not known before it has confirmed all of them once"
        risks.append(_risk(observed_since, reason, at_least=True))
    elif facts.unconfirmed.since is not None:
        count, age = facts.unconfirmed.entries, now - facts.unconfirmed.since
        reason = f"{count} acknowledgements are not confirmed, the oldest made {age:.1f} s ago"
        risks.append(_risk(facts.unconfirmed.since, reason))
    return risks


def _data_risks(facts: DataFacts, observed_since: float, now: float) -> list[Judgement]:
    risks: list[Judgement] = []
    if facts.uncarried_since is not None:
        at_least = facts.uncarried_since <= observed_since
        risks.append(_risk(facts.uncarried_since, "nobody carries messages there", at_least=at_least))
    if facts.unknown_since is not None:
        at_least = facts.unknown_since <= observed_since
        reason = "which messages are there is not known before the link has confirmed it"
        risks.append(_risk(facts.unknown_since, reason, at_least=at_least))
    if facts.entries:
        if facts.oldest_appended_at is None:
            reason = f"{facts.entries} messages are not there, and the age of the oldest was not recorded"
            risks.append(_risk(observed_since, reason, at_least=True))
        else:
            age = now - facts.oldest_appended_at
            at_least = not facts.is_oldest_exact
            stored = f"stored{' at least' if at_least else ''} {age:.1f} s ago"
            reason = f"{facts.entries} messages are not there, the oldest {stored}"
            risks.append(_risk(facts.oldest_appended_at, reason, at_least=at_least))
    return risks + _custody_risks(facts.in_custody, observed_since)


def _custody_risks(in_custody: int | None, observed_since: float) -> list[Judgement]:
    if in_custody is None:
        return [_risk(observed_since, _UNKNOWN_CUSTODY, at_least=True)]
    reason = f"{in_custody} messages of clusters that have left the namespace are not there"
    return [_risk(observed_since, reason, at_least=True)] if in_custody else []


def _risk(since: float, reason: str, *, at_least: bool = False) -> Judgement:
    return Judgement(Status.AT_RISK, since, at_least, (reason,))
