"""Which consumer of a Key_Shared subscription a sticky key belongs to: the one that Pulsar's brokers choose. Pure.

A key's hash is above 0 and below ``RANGE_SIZE``. Each consumer has ranges of these numbers (protocol: Key_Shared).
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
"""Hashes are below it."""

HASH_RANGES_MAX = 4096
"""Hash ranges of one consumer; a SUBSCRIBE with more of them is refused."""

FEW_RANGES = 16
"""Ranges that are removed from the others one by one; more are removed in a pass over all."""

_HASH_MASK = 0x7FFF_FFFF
"""Pulsar's hashes are not negative."""


class Member(Protocol):
    """A consumer, as far as it matters here. Two of one name are two."""

    @property
    def name(self) -> str:
        """Decides where on a ring it stands."""
        ...

    @property
    def hash_ranges(self) -> Sequence[tuple[int, int]]:
        """The ranges that it asked for, each with both its ends."""
        ...


M = TypeVar("M", bound=Member)


class Selector(ABC, Generic[M]):
    """Divides the hashes among consumers, anew whenever one comes or goes."""

    def __init__(self) -> None:
        """Nobody is there."""
        self._first = 0
        """The lowest number of the first range."""
        self._ends: list[int] = []
        """The last number of each range, ascending."""
        self._owners: list[M | None] = []
        """Whom the range belongs to that ends there."""
        self._changes: list[tuple[int, int]] = []

    @property
    def has_changes(self) -> bool:
        """Whether hashes may have another owner than when changes were last taken."""
        return bool(self._changes)

    def take_changes(self) -> list[tuple[int, int]]:
        """The ranges of all hashes whose owner may have changed since this was last called, each with both its ends.

        Ranges may overlap.
        """
        changes, self._changes = self._changes, []
        return changes

    def hash_of(self, key: bytes) -> int:
        """The hash of a sticky key."""
        return (mmh3.hash(key, signed=False) & _HASH_MASK) % RANGE_SIZE or 1

    def select(self, sticky_hash: int) -> M | None:
        """Whom a hash belongs to; None: nobody."""
        at = bisect_left(self._ends, sticky_hash)
        return self._owners[at] if at < len(self._owners) else None

    def _shares(self) -> Iterable[tuple[int, M | None]]:
        """The last number of each range with its owner, ascending."""
        return zip(self._ends, self._owners, strict=True)

    def ranges(self) -> dict[M, list[tuple[int, int]]]:
        """The ranges of each consumer that has any, ascending, each with both its ends."""
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

    def rivals(self, member: Member) -> list[M]:
        """Consumers because of which ``member`` cannot be added."""
        del member
        return []

    def check(self, member: Member) -> None:
        """Raise RequestError if ``member`` cannot be added."""

    @abstractmethod
    def add(self, member: M) -> None:
        """Give it a share; ``check`` did not refuse it."""

    @abstractmethod
    def remove(self, member: M) -> None:
        """Divide its share among the others."""


class ConsistentHashingSelector(Selector[M]):
    """AUTO_SPLIT as it is by default: each consumer has points on a ring, and what lies before each.

    Points are hashes of the consumer's name, of a number that tells it from others of its name, and of the point's.
    Adding or removing a consumer touches its own points only, so many may leave in one turn of the event loop.
    """

    def __init__(self, points: int) -> None:
        """So many points for each consumer."""
        super().__init__()
        self._first = 1
        self._points = points
        self._ring: dict[int, list[M]] = {}
        """Who stands at a point; the one who came first owns it."""
        self._places = array("H")
        """The points at which somebody stands, ascending."""
        self._numbers: dict[M, int] = {}
        self._namesakes: dict[str, _Numbers] = {}

    def hash_of(self, key: bytes) -> int:
        """The hash of a sticky key."""
        return (mmh3.hash(key, signed=False) & _HASH_MASK) % (RANGE_SIZE - 1) + 1

    def add(self, member: M) -> None:
        """Put it on the ring."""
        namesakes = self._namesakes.setdefault(member.name, _Numbers())
        number = self._numbers[member] = namesakes.take()
        for at in self._points_of(member, number):
            here = self._ring.setdefault(at, [])
            if not here:
                insort(self._places, at)
                self._note_change(at)
            here.append(member)

    def remove(self, member: M) -> None:
        """Take it from the ring."""
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
        """The owner of a point changes, and with it that of the hashes before it."""
        index = bisect_left(self._places, at)
        if index:
            self._changes.append((self._places[index - 1] + 1, at))
        else:  # the hashes behind the last point belong to the first one
            self._changes += [(self._first, at), (self._places[-1] + 1, RANGE_SIZE - 1)]

    def select(self, sticky_hash: int) -> M | None:
        """Whom a hash belongs to; None: nobody."""
        places = self._places
        if not places:
            return None
        at = bisect_left(places, sticky_hash)
        return self._ring[places[at] if at < len(places) else places[0]][0]

    def _shares(self) -> Iterator[tuple[int, M | None]]:
        for at in self._places:
            yield at, self._ring[at][0]
        if self._places and self._places[-1] < RANGE_SIZE - 1:  # behind the last point the ring begins again
            yield RANGE_SIZE - 1, self._ring[self._places[0]][0]

    def _points_of(self, member: M, number: int) -> list[int]:
        """Where a consumer stands; some of its points may be the same."""
        return [self.hash_of(f"{member.name}\0{number}\0{point}".encode()) for point in range(self._points)]


class _Numbers:
    """Numbers from 0 on, of which the lowest free one is taken."""

    def __init__(self) -> None:
        """None is taken."""
        self.taken = 0
        """How many are taken."""
        self._free = [0]
        """A heap of the free numbers up to the first that was never taken, which is the highest here."""

    def take(self) -> int:
        """Take the lowest free number."""
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
    """AUTO_SPLIT without consistent hashing: who comes gets the lower half of the largest range."""

    def add(self, member: M) -> None:
        """Split the largest range, the lowest of the largest ones."""
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
        """Refuse it when there is a consumer for every hash."""
        del member
        if len(self._ends) >= RANGE_SIZE:
            message = f"No more range can assigned to new consumer, assigned consumers {len(self._ends)}"
            raise RequestError(ServerError.ConsumerAssignError, message)

    def remove(self, member: M) -> None:
        """Its range goes to the next one, the last range to the one before."""
        at = self._owners.index(member)
        self._changes.append((self._ends[at - 1] if at else 0, self._ends[at]))
        del self._owners[at]
        del self._ends[at if at < len(self._owners) else at - 1]


class HashRangeExclusiveSelector(Selector[M]):
    """STICKY: consumers say which ranges are theirs. What nobody asked for goes nowhere."""

    def __init__(self) -> None:
        """Nobody is there."""
        super().__init__()
        self._members: dict[int, M] = {}
        """By the number of each, in the order in which they came."""
        self._numbers: dict[M, int] = {}
        self._next_number = count()
        self._owned: list[tuple[int, int, int]] = []
        """The ranges that belong to somebody, ascending: the first and the last hash, and the owner's number."""

    def rivals(self, member: Member) -> list[M]:
        """Who has hashes that ``member`` asks for, in the order in which they came."""
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
        """Refuse it what belongs to somebody."""
        rivals = self.rivals(member)
        if rivals:
            raise RequestError(ServerError.ConsumerAssignError, f"Range conflict with consumer {rivals[0].name}")

    def add(self, member: M) -> None:
        """Give it its ranges."""
        number = self._numbers[member] = next(self._next_number)
        self._members[number] = member
        own = list(_within_hashes(member.hash_ranges))
        self._changes += own
        self._owned += [(first, last, number) for first, last in own]
        self._owned.sort()  # of two sorted parts, in steps as many as there are ranges

    def remove(self, member: M) -> None:
        """Its ranges belong to nobody."""
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
        """Whom a hash belongs to; None: nobody."""
        at = bisect_left(self._owned, (sticky_hash + 1,)) - 1
        if at < 0 or self._owned[at][1] < sticky_hash:
            return None
        return self._members[self._owned[at][2]]

    def _shares(self) -> Iterator[tuple[int, M | None]]:
        for first, last, number in self._owned:
            yield first - 1, None
            yield last, self._members[number]


def _within_hashes(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges without those in which no hash is, so that all consumers together have RANGE_SIZE at most."""
    return ((first, last) for first, last in ranges if max(first, 0) <= min(last, RANGE_SIZE - 1))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def check_number_of_ranges(number: int) -> None:
    """Raise RequestError if these are more ranges than one consumer may have."""
    if number > HASH_RANGES_MAX:
        message = f"{number} hash ranges, of which a consumer may have {HASH_RANGES_MAX} (maxHashRangesPerConsumer)"
        raise RequestError(ServerError.ConsumerAssignError, message, Limit.HASH_RANGES)


def check_ranges(hash_ranges: Sequence[tuple[int, int]]) -> None:
    """Raise RequestError if these cannot be the ranges of a consumer."""
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
