"""What a replicated subscription has acknowledged, in origin positions, as a state that merges by union.

For each origin cluster it holds intervals of acknowledged positions and the remaining bits of partly acknowledged
batches. Union and AND are commutative, associative and idempotent: states may be lost, repeated, reordered or come
from several clusters at once, whole or in parts, and all converge. A delta is the same thing as a state, only
smaller. Acknowledgements of entries that are not here yet stay and take effect when the entry arrives.

Beside them, and never mixed with them, stands where the subscription **starts** in each origin: entries at or below
the start are outside of it, neither delivered nor claimed. An origin without a start is subscribed from its very
beginning. That holds too for one of which nothing was held when the subscription was created at the latest position:
whatever arrives from it arrives later. Every part of a state carries all its starts, so that no part can be mistaken
for a subscription that starts elsewhere.

Only an epoch goes back: a higher one replaces the whole state. A replaced state may arrive in parts, of which some
are lost: fewer acknowledgements mean that something is delivered again, never that it is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.partials import PartialBatches
from magnetar.geo.origins.index import Claim, PartialClaim
from magnetar.geo.origins.intervals import Interval, IntervalSet
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Kind(Enum):
    """What a merge did."""

    IGNORED = "ignored"  # the other state is older: whoever sent it needs ours
    MERGED = "merged"  # same epoch: united
    REPLACED = "replaced"  # newer epoch: ours is gone
    DELETED = "deleted"  # newer tombstone: the subscription is gone


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a merge changed. Where ``rebuild`` is set, the cursor has to be made anew from the whole state."""

    kind: Kind
    news: list[Claim] = field(default_factory=list)  # acknowledged now and not before
    partial_news: list[PartialClaim] = field(default_factory=list)  # fewer messages remain now than before
    reopened: list[Claim] = field(default_factory=list)  # outside of the subscription before, inside now

    @property
    def rebuild(self) -> bool:
        """Whether entries may have become unacknowledged."""
        return self.kind is Kind.REPLACED or bool(self.reopened)

    @property
    def changed(self) -> bool:
        """Whether the state is another than before, and so has to be persisted."""
        return self.kind in (Kind.REPLACED, Kind.DELETED) or bool(self.news or self.partial_news or self.reopened)


class OriginProgress:
    """What was acknowledged of the entries of one origin, and where the subscription starts in it."""

    __slots__ = ("acknowledged", "partial", "start")

    def __init__(self, start: Position = EARLIEST) -> None:
        """Start with nothing acknowledged; ``start`` is exclusive."""
        self.start = start
        self.acknowledged = IntervalSet()
        self.partial = PartialBatches()  # only positions outside of acknowledged

    def acknowledge(self, lower: Position, upper: Position) -> list[Interval]:
        """Add ``(lower, upper]``; returns what was not acknowledged before."""
        added = self.acknowledged.add(lower, upper)
        if self.partial:
            for part_lower, part_upper in added:
                self.partial.discard(part_lower, part_upper)
        return added

    def acknowledge_all(self, intervals: IntervalSet) -> list[Interval]:
        """Add many intervals; returns what was not acknowledged before."""
        added = self.acknowledged.update(intervals)
        if self.partial:
            for lower, upper in added:
                self.partial.discard(lower, upper)
        return added

    def copy(self) -> OriginProgress:
        """The same, sharing nothing that changes."""
        made = OriginProgress(self.start)
        made.acknowledged, made.partial = self.acknowledged.copy(), self.partial.copy()
        return made

    def narrow(self, position: Position, remaining: int) -> int | None:
        """Acknowledge messages of a batch; returns the bits that remain, or None when nothing changed."""
        return None if position in self.acknowledged else self.partial.narrow(position, remaining)

    def is_untouched_after(self, lower: Position) -> bool:
        """Whether all entries after ``lower`` are to be delivered, as a whole."""
        last = self.acknowledged.last
        return self.start <= lower and not self.partial and (last is None or last <= lower)

    def covered(self, lower: Position, upper: Position) -> list[Interval]:
        """The parts of ``(lower, upper]`` that are not to be delivered: outside the subscription, or acknowledged."""
        if lower >= self.start:
            return self.acknowledged.within(lower, upper)
        if upper <= self.start:
            return [Interval(lower, upper)]
        return [Interval(lower, self.start), *self.acknowledged.within(self.start, upper)]


class SubscriptionProgress:
    """The state of one replicated subscription in one cluster, or a part of such a state on its way."""

    __slots__ = ("deleted", "epoch", "name", "origins")

    def __init__(
        self,
        name: str,
        starts: Mapping[str, Position] | None = None,
        epoch: Epoch = FIRST_EPOCH,
        *,
        deleted: bool = False,
    ) -> None:
        """A subscription with nothing acknowledged; ``starts`` has each origin's start, exclusive, absent for none.

        A subscription created here after it was deleted has ``epoch`` = the tombstone's ``created_after()``.
        """
        self.name = name
        self.epoch = epoch
        self.deleted = deleted  # a tombstone: no origins, only the epoch
        self.origins: dict[str, OriginProgress] = {}
        for cluster, start in (starts or {}).items():
            self.origin(cluster).start = start

    def origin(self, cluster: str) -> OriginProgress:
        """What is acknowledged of the entries of ``cluster``; made, from the very beginning, when there is none."""
        origin = self.origins.get(cluster)
        if origin is None:
            origin = self.origins[cluster] = OriginProgress()
        return origin

    def starts(self) -> dict[str, Position]:
        """Each origin's start, exclusive; absent where the subscription starts from the very beginning."""
        return {cluster: origin.start for cluster, origin in self.origins.items() if origin.start != EARLIEST}

    def __eq__(self, other: object) -> bool:
        """Whether both say the same."""
        if not isinstance(other, SubscriptionProgress):
            return NotImplemented
        return self._comparable() == other._comparable()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _comparable(self) -> tuple[object, ...]:
        origins = {
            cluster: (origin.start, list(origin.acknowledged), list(origin.partial))
            for cluster, origin in self.origins.items()
            if origin.start != EARLIEST or origin.acknowledged or origin.partial
        }
        return self.name, self.epoch, self.deleted, origins

    # --- changes made here -----------------------------------------------------------------------------------------

    def claim(self, claims: Iterable[Claim], partials: Iterable[PartialClaim] = ()) -> SubscriptionProgress | None:
        """Record what was acknowledged here; returns the part of it that is new, or None when there is none.

        What lies at or below a start is left out: it was never acknowledged by anybody. A batch of which no message
        remains counts as acknowledged.
        """
        assert not self.deleted, f"{self.name} was deleted in epoch {self.epoch}"
        news = Outcome(Kind.MERGED)
        for cluster, pairs in _by_cluster(claims).items():
            start = self.origin(cluster).start
            inside = [(max(lower, start), upper) for lower, upper in pairs if start < upper]
            if len(inside) == 1:
                self._acknowledge(cluster, *inside[0], news)
            else:
                self._acknowledge_all(cluster, IntervalSet.from_pairs(inside), news)
        for cluster, position, remaining in partials:
            if self.origin(cluster).start < position:
                self._narrow(cluster, position, remaining, news)
        return self._part(news) if news.changed else None

    def reseek(self, local_cluster: str, origins: Mapping[str, OriginProgress]) -> None:
        """Go to what ``sought`` says, in a new epoch raised by ``local_cluster``: a seek or reset made here."""
        self.epoch = self.epoch.raised_by(local_cluster)
        self.origins = dict(origins)

    def tombstone(self, local_cluster: str) -> SubscriptionProgress:
        """What remains when the subscription is deleted here: nothing but a newer epoch."""
        return SubscriptionProgress(self.name, epoch=self.epoch.raised_by(local_cluster), deleted=True)

    # --- changes made elsewhere ------------------------------------------------------------------------------------

    def merge(self, incoming: SubscriptionProgress) -> Outcome:
        """Take over another cluster's state, whole or in part, which must be of the same subscription.

        Afterwards this state holds nothing of ``incoming`` by reference.
        """
        assert incoming.name == self.name, (incoming.name, self.name)
        if incoming.epoch < self.epoch:
            return Outcome(Kind.IGNORED)
        if incoming.epoch > self.epoch:
            self.epoch, self.deleted, self.origins = incoming.epoch, incoming.deleted, {}
            if self.deleted:
                return Outcome(Kind.DELETED)
            for cluster, start in incoming.starts().items():
                self.origin(cluster).start = start
            outcome = Outcome(Kind.REPLACED)
        else:
            outcome = Outcome(Kind.MERGED)
            if self.deleted or incoming.deleted:  # a raised epoch has one author, so both are tombstones
                return outcome
            self._earlier_starts(incoming, outcome)
        for cluster, origin in incoming.origins.items():
            if not self.origin(cluster).acknowledged.has_all_of(origin.acknowledged):
                self._acknowledge_all(cluster, origin.acknowledged, outcome)
            for position, remaining in origin.partial:
                self._narrow(cluster, position, remaining, outcome)
        return outcome

    def _earlier_starts(self, incoming: SubscriptionProgress, outcome: Outcome) -> None:
        """Keep, of two subscriptions created independently, the earlier start in each origin."""
        for cluster, origin in self.origins.items():
            theirs = incoming.origins.get(cluster)
            start = theirs.start if theirs is not None else EARLIEST
            if start < origin.start:
                outcome.reopened.append(Claim(cluster, start, origin.start))
                origin.start = start

    def _acknowledge(self, cluster: str, lower: Position, upper: Position, outcome: Outcome) -> None:
        outcome.news.extend(Claim(cluster, *part) for part in self.origin(cluster).acknowledge(lower, upper))

    def _acknowledge_all(self, cluster: str, intervals: IntervalSet, outcome: Outcome) -> None:
        outcome.news.extend(Claim(cluster, *part) for part in self.origin(cluster).acknowledge_all(intervals))

    def _narrow(self, cluster: str, position: Position, remaining: int, outcome: Outcome) -> None:
        left = self.origin(cluster).narrow(position, remaining)
        if left == 0:
            self._acknowledge(cluster, Position(position.ledger_id, position.entry_id - 1), position, outcome)
        elif left is not None:
            outcome.partial_news.append(PartialClaim(cluster, position, left))

    def _part(self, news: Outcome) -> SubscriptionProgress:
        """A state of the same epoch and starts that holds only ``news``."""
        part = SubscriptionProgress(self.name, self.starts(), self.epoch)
        for cluster, pairs in _by_cluster(news.news).items():
            part.origin(cluster).acknowledged = IntervalSet.from_pairs(pairs)
        for cluster, position, remaining in news.partial_news:
            part.origin(cluster).narrow(position, remaining)
        return part

    def copy(self) -> SubscriptionProgress:
        """The same state, sharing nothing that changes."""
        copied = SubscriptionProgress(self.name, epoch=self.epoch, deleted=self.deleted)
        copied.origins = {cluster: origin.copy() for cluster, origin in self.origins.items()}
        return copied

    # --- asking ----------------------------------------------------------------------------------------------------

    def is_untouched_after(self, cluster: str, lower: Position) -> bool:
        """Whether all entries of ``cluster`` after ``lower`` are to be delivered, as a whole."""
        origin = self.origins.get(cluster)
        return origin is None or origin.is_untouched_after(lower)

    def covered_in(self, cluster: str, lower: Position, upper: Position) -> list[Claim]:
        """What of an arriving run ``(lower, upper]`` is not to be delivered: not subscribed, or acknowledged before."""
        origin = self.origins.get(cluster)
        return [Claim(cluster, *part) for part in origin.covered(lower, upper)] if origin is not None else []

    def partial_in(self, cluster: str, lower: Position, upper: Position) -> list[PartialClaim]:
        """The batches of an arriving run ``(lower, upper]`` that are partly acknowledged already."""
        origin = self.origins.get(cluster)
        if origin is None or not origin.partial:
            return []
        lower = max(lower, origin.start)
        return [PartialClaim(cluster, *record) for record in origin.partial.between(lower, upper)]

    def covered(self) -> Iterator[Claim]:
        """Everything that is not to be delivered."""
        for cluster, origin in self.origins.items():
            if origin.start > EARLIEST:
                yield Claim(cluster, EARLIEST, origin.start)
            for lower, upper in origin.acknowledged:
                yield Claim(cluster, lower, upper)

    def partials(self) -> Iterator[PartialClaim]:
        """The partly acknowledged batches."""
        for cluster, origin in self.origins.items():
            for position, remaining in origin.partial:
                yield PartialClaim(cluster, position, remaining)

    @property
    def intervals(self) -> int:
        """How many intervals the state takes, over all origins."""
        return sum(len(origin.acknowledged) for origin in self.origins.values())


def _by_cluster(claims: Iterable[Claim]) -> dict[str, list[tuple[Position, Position]]]:
    pairs: dict[str, list[tuple[Position, Position]]] = {}
    for cluster, lower, upper in claims:
        pairs.setdefault(cluster, []).append((lower, upper))
    return pairs
