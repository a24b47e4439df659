"""Assignment of sticky keys to the consumers of a Key_Shared subscription, as in Pulsar's brokers. Pure.

The hash of a key is greater than 0 and less than ``RANGE_SIZE``. Each consumer owns ranges of hashes (protocol:
Key_Shared).
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, insort
from itertools import count, pairwise
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import mmh3

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RANGE_SIZE = 1 << 16
"""Exclusive upper bound of hashes."""

HASH_RANGES_MAX = 4096
"""Maximum number of hash ranges of one consumer; a SUBSCRIBE with more is rejected."""

FEW_RANGES = 16
"""Maximum number of ranges that are removed one by one; more are removed in one pass over all ranges."""

_HASH_MASK = 0x7FFF_FFFF
"""Pulsar's hashes are never negative."""


class Member(Protocol):
    """A consumer, as selectors use it. Two consumers with the same name are two members."""

    @property
    def name(self) -> str:
        """Determines its points on the ring."""
        ...

    @property
    def hash_ranges(self) -> Sequence[tuple[int, int]]:
        """Its requested ranges, with inclusive bounds."""
        ...


M = TypeVar("M", bound=Member)


class Selector(ABC, Generic[M]):
    """Distributes the hashes among consumers, and again after each change of the consumers."""

    def __init__(self) -> None:
        """Create a selector without consumers."""
        self._first = 0
        """First hash of the first range."""
        self._ends: list[int] = []
        """Last hash of each range, ascending."""
        self._owners: list[M | None] = []
        """Owner of the range that ends there."""
        self._changes: list[tuple[int, int]] = []

    @property
    def has_changes(self) -> bool:
        """Whether owners of hashes may have changed since ``take_changes``."""
        return bool(self._changes)

    def take_changes(self) -> list[tuple[int, int]]:
        """Return the ranges of hashes whose owner may have changed since the last call, with inclusive bounds.

        Ranges may overlap.
        """
        changes, self._changes = self._changes, []
        return changes

    def hash_of(self, key: bytes) -> int:
        """Return the hash of a sticky key."""
        return (mmh3.hash(key, signed=False) & _HASH_MASK) % RANGE_SIZE or 1

    def select(self, sticky_hash: int) -> M | None:
        """Return the owner of a hash; None if it has none."""
        at = bisect_left(self._ends, sticky_hash)
        return self._owners[at] if at < len(self._owners) else None

    def _shares(self) -> Iterable[tuple[int, M | None]]:
        """Return the last hash of each range with its owner, ascending."""
        return zip(self._ends, self._owners, strict=True)

    def ranges(self) -> dict[M, list[tuple[int, int]]]:
        """Return the ranges of each consumer that owns any, ascending, with inclusive bounds."""
        ranges: dict[M, list[tuple[int, int]]] = {}
        first, owner_before = self._first, None
        for end, owner in self._shares():
            if owner is not None:
                own = ranges.setdefault(owner, [])
                if owner is owner_before:
                    own[-1] = own[-1][0], end
                else:
                    own.append((first, end))
            first, owner_before = end + 1, owner
        return ranges

    def conflicting(self, member: Member) -> list[M]:
        """Return the consumers that conflict with ``member``."""
        del member
        return []

    def check(self, member: Member) -> None:
        """Raise RequestError if ``member`` cannot be added."""

    @abstractmethod
    def add(self, member: M) -> None:
        """Add a consumer that ``check`` accepted, and assign hashes to it."""

    @abstractmethod
    def remove(self, member: M) -> None:
        """Remove a consumer, and distribute its hashes among the others."""


class ConsistentHashingSelector(Selector[M]):
    """AUTO_SPLIT by default: each consumer owns the ranges before its points on a hash ring.

    A point is a hash of the consumer's name, a number that distinguishes consumers of the same name, and the point's
    index. Adding or removing a consumer changes its own points only, so many consumers can leave in one turn of the
    event loop.
    """

    def __init__(self, points: int) -> None:
        """Create a ring with this number of points for each consumer."""
        super().__init__()
        self._first = 1
        self._points = points
        self._ring: dict[int, list[M]] = {}
        """The consumers at each point; the one that arrived first owns it."""
        self._places = array("H")
        """The occupied points, ascending."""
        self._numbers: dict[M, int] = {}
        self._namesakes: dict[str, _Numbers] = {}

    def hash_of(self, key: bytes) -> int:
        """Return the hash of a sticky key."""
        return (mmh3.hash(key, signed=False) & _HASH_MASK) % (RANGE_SIZE - 1) + 1

    def add(self, member: M) -> None:
        """Add a consumer to the ring."""
        namesakes = self._namesakes.setdefault(member.name, _Numbers())
        number = self._numbers[member] = namesakes.take()
        for at in self._points_of(member, number):
            here = self._ring.setdefault(at, [])
            if not here:
                insort(self._places, at)
                self._note_change(at)
            here.append(member)

    def remove(self, member: M) -> None:
        """Remove a consumer from the ring."""
        number, namesakes = self._numbers.pop(member), self._namesakes[member.name]
        namesakes.give_back(number)
        if not namesakes.taken:
            del self._namesakes[member.name]
        for at in self._points_of(member, number):
            here = self._ring[at]
            if here[0] is member:
                self._note_change(at)
            here.remove(member)
            if not here:
                del self._ring[at]
                del self._places[bisect_left(self._places, at)]

    def _note_change(self, at: int) -> None:
        """Record that the owner of a point, and of the hashes before it, changes."""
        index = bisect_left(self._places, at)
        if index:
            self._changes.append((self._places[index - 1] + 1, at))
        else:  # the hashes after the last point belong to the first one
            self._changes += [(self._first, at), (self._places[-1] + 1, RANGE_SIZE - 1)]

    def select(self, sticky_hash: int) -> M | None:
        """Return the owner of a hash; None if it has none."""
        places = self._places
        if not places:
            return None
        at = bisect_left(places, sticky_hash)
        return self._ring[places[at] if at < len(places) else places[0]][0]

    def _shares(self) -> Iterator[tuple[int, M | None]]:
        for at in self._places:
            yield at, self._ring[at][0]
        if self._places and self._places[-1] < RANGE_SIZE - 1:  # after the last point the ring wraps around
            yield RANGE_SIZE - 1, self._ring[self._places[0]][0]

    def _points_of(self, member: M, number: int) -> list[int]:
        """Return the points of a consumer; some may be equal."""
        return [self.hash_of(f"{member.name}\0{number}\0{point}".encode()) for point in range(self._points)]


class _Numbers:
    """Allocates the lowest free number, from 0."""

    def __init__(self) -> None:
        """Allocate nothing."""
        self.taken = 0
        """Number of allocated numbers."""
        self._free = [0]
        """A heap of the free numbers, up to and including the first number that was never allocated."""

    def take(self) -> int:
        """Allocate the lowest free number."""
        self.taken += 1
        number = heapq.heappop(self._free)
        if not self._free:
            self._free.append(number + 1)
        return number

    def give_back(self, number: int) -> None:
        """Free a number."""
        self.taken -= 1
        heapq.heappush(self._free, number)


class HashRangeAutoSplitSelector(Selector[M]):
    """AUTO_SPLIT without consistent hashing: a new consumer gets the lower half of the largest range."""

    def add(self, member: M) -> None:
        """Split the largest range; the lowest one if several have that size."""
        if not self._ends:
            self._ends, self._owners = [RANGE_SIZE], [member]
            self._changes.append((0, RANGE_SIZE))
            return
        sizes = [end - before for before, end in pairwise([0, *self._ends])]
        largest = sizes.index(max(sizes))
        first = self._ends[largest] - sizes[largest]
        self._ends.insert(largest, self._ends[largest] - sizes[largest] // 2)
        self._changes.append((first, self._ends[largest]))
        self._owners.insert(largest, member)

    def check(self, member: Member) -> None:
        """Raise RequestError when there is a consumer for every hash."""
        del member
        if len(self._ends) >= RANGE_SIZE:
            message = f"No more range can assigned to new consumer, assigned consumers {len(self._ends)}"
            raise RequestError(ServerError.ConsumerAssignError, message)

    def remove(self, member: M) -> None:
        """Assign its range to the next consumer; the last range goes to the previous one."""
        at = self._owners.index(member)
        self._changes.append((self._ends[at - 1] if at else 0, self._ends[at]))
        del self._owners[at]
        del self._ends[at if at < len(self._owners) else at - 1]


class HashRangeExclusiveSelector(Selector[M]):
    """STICKY: consumers request their ranges. Hashes that no consumer requested have no owner."""

    def __init__(self) -> None:
        """Create a selector without consumers."""
        super().__init__()
        self._members: dict[int, M] = {}
        """Consumers by number, in the order of their arrival."""
        self._numbers: dict[M, int] = {}
        self._next_number = count()
        self._owned: list[tuple[int, int, int]] = []
        """The owned ranges, ascending: first hash, last hash, and the owner's number."""

    def conflicting(self, member: Member) -> list[M]:
        """Return the owners of hashes that ``member`` requests, in the order of their arrival."""
        owned, found = self._owned, set()
        for first, last in _within_hashes(member.hash_ranges):
            at = bisect_left(owned, (first,))
            if at and owned[at - 1][1] >= first:
                at -= 1
            while at < len(owned) and owned[at][0] <= last:
                found.add(owned[at][2])
                at += 1
        return [self._members[number] for number in sorted(found)]

    def check(self, member: Member) -> None:
        """Raise RequestError if a requested hash has an owner."""
        conflicting = self.conflicting(member)
        if conflicting:
            raise RequestError(ServerError.ConsumerAssignError, f"Range conflict with consumer {conflicting[0].name}")

    def add(self, member: M) -> None:
        """Assign the requested ranges."""
        number = self._numbers[member] = next(self._next_number)
        self._members[number] = member
        own = list(_within_hashes(member.hash_ranges))
        self._changes += own
        self._owned += [(first, last, number) for first, last in own]
        self._owned.sort()  # linear: the list consists of two sorted parts

    def remove(self, member: M) -> None:
        """Remove a consumer; its ranges have no owner afterwards."""
        number = self._numbers.pop(member)
        del self._members[number]
        own = list(_within_hashes(member.hash_ranges))
        self._changes += own
        if len(own) > FEW_RANGES:
            self._owned = [each for each in self._owned if each[2] != number]
            return
        for first, last in own:
            del self._owned[bisect_left(self._owned, (first, last, number))]

    def select(self, sticky_hash: int) -> M | None:
        """Return the owner of a hash; None if it has none."""
        at = bisect_left(self._owned, (sticky_hash + 1,)) - 1
        if at < 0 or self._owned[at][1] < sticky_hash:
            return None
        return self._members[self._owned[at][2]]

    def _shares(self) -> Iterator[tuple[int, M | None]]:
        for first, last, number in self._owned:
            yield first - 1, None
            yield last, self._members[number]


def _within_hashes(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges that contain hashes, so that all consumers together have at most RANGE_SIZE ranges."""
    return ((first, last) for first, last in ranges if max(first, 0) <= min(last, RANGE_SIZE - 1))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def check_number_of_ranges(number: int) -> None:
    """Raise RequestError if a consumer requests too many ranges."""
    if number > HASH_RANGES_MAX:
        message = f"{number} hash ranges, of which a consumer may have {HASH_RANGES_MAX} (maxHashRangesPerConsumer)"
        raise RequestError(ServerError.ConsumerAssignError, message, Limit.HASH_RANGES)


def check_ranges(hash_ranges: Sequence[tuple[int, int]]) -> None:
    """Raise RequestError if these ranges are invalid."""
    ranges = sorted(hash_ranges)
    problem = None if ranges else "Ranges for KeyShared policy must not be empty."
    for first, last in ranges:
        if first > last:
            problem = problem or f"Fixed hash range start > end for range: [{first},{last}]"
    for one, other in pairwise(ranges):
        if _overlap(one, other):
            both = f"[{one[0]},{one[1]}] overlaps with [{other[0]},{other[1]}]"
            problem = problem or f"Consumer's own ranges conflict: {both}"
    if problem:
        raise RequestError(ServerError.ConsumerAssignError, problem)
