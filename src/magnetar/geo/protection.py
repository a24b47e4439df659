"""Whether a subscription's consumers could go on in another cluster now, and what they would find there. Pure.

It is *unprotected* where its progress goes nowhere, *at risk* where a cluster lacks something, or would lack what comes
next, and *protected* where every other cluster has confirmed everything. What has been under way for no longer than a
tolerance counts as arrived: there is always something under way. A subscription is as well off as it is towards the
cluster that it is worst off towards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.geo.progress.confirmations import Unconfirmed


class Status(StrEnum):
    """How well off a subscription is; the later the worse."""

    PROTECTED = "protected"
    AT_RISK = "at risk"
    UNPROTECTED = "unprotected"


_MARKERS = (
    "acknowledgements are carried by snapshots (PIP-33): what was acknowledged since the last one, and what was "
    "acknowledged out of order, is repeated there"
)
_SEVERITY = {status: severity for severity, status in enumerate(Status)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressFacts:
    """How acknowledgements get to one cluster. Times are seconds since the epoch."""

    by_markers: bool = False
    """Whether they are carried by PIP-33's snapshots, which tell nobody how far the cluster is."""
    unavailable: str = ""
    """Why they never do; empty where they can."""
    down_since: float | None = None
    failure: str = ""
    unconfirmed: Unconfirmed | None
    """None: the cluster has not confirmed a full state since ``observed_since``, so nobody knows what it lacks."""
    steady_since: float
    """When it last caught up after a loss or a delay, or when it first confirmed a full state."""
    is_first: bool
    """Whether ``steady_since`` is that first time: then it may have been so before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """How messages get to one cluster."""

    uncarried_since: float | None = None
    """Since when nobody carries them; None while somebody does."""
    unknown_since: float | None = None
    """Since when it is not known what the cluster holds; None while it is known."""
    entries: int = 0
    """Published here and not confirmed there. While it is not known what the cluster holds, it may lack more."""
    oldest_appended_at: float | None = None
    """When the oldest of them became durable here; None where there is none, or that was not recorded."""
    steady_since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFacts:
    """All that is known of one other cluster."""

    progress: ProgressFacts
    data: DataFacts
    lost: int | None = None
    """Entries that the cluster published, lost with its data and has not got back, and that the subscription has not
    acknowledged; None while that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is known of one subscription."""

    unprotected_because: str
    """Why its progress goes nowhere; empty where it goes to ``peers``."""
    unprotected_since: float
    unprotected_at_least: bool
    """Whether that may have been so for longer than is known."""
    observed_since: float
    """When this broker loaded the topic."""
    peers: Mapping[str, PeerFacts]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A status, since when it is so, and why."""

    status: Status
    since: float
    at_least: bool = False
    """Whether it may have been so for longer: what was before the broker started is not known."""
    reasons: tuple[str, ...] = ()
    peers: Mapping[str, Judgement] = field(default_factory=dict)


def judge(facts: Facts, now: float, tolerance_s: float) -> Judgement:
    """How well off the subscription is at ``now``."""
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
    # What is not known is never taken to be well.
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
            reason = f"{facts.entries} messages are not there, the oldest stored {age:.1f} s ago"
            risks.append(_risk(facts.oldest_appended_at, reason))
    return risks


def _risk(since: float, reason: str, *, at_least: bool = False) -> Judgement:
    return Judgement(Status.AT_RISK, since, at_least, (reason,))
