"""Selectors of Key_Shared: they choose as Apache Pulsar's do, and every hash has at most one owner."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.dispatch.selectors import (
    HASH_RANGES_MAX,
    RANGE_SIZE,
    ConsistentHashingSelector,
    HashRangeAutoSplitSelector,
    HashRangeExclusiveSelector,
    Selector,
    check_ranges,
)
from magnetar.sim.cluster import Cluster, Key_Shared
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.work import lines_run

RECORDED = (Path(__file__).parent / "key_shared_selectors.txt").read_text(encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Person:
    name: str
    hash_ranges: tuple[tuple[int, int], ...] = ()


def made(title: str) -> Selector[Person]:
    kind, *points = title.split()
    if kind == "consistent":
        return ConsistentHashingSelector(int(points[0]))
    return HashRangeAutoSplitSelector() if kind == "auto-split" else HashRangeExclusiveSelector()


@pytest.mark.parametrize("scenario", re.findall(r"^# ((?:consistent|auto|exclusive)[^#]*)", RECORDED, re.MULTILINE))
def test_as_recorded_from_apache_pulsar(scenario: str) -> None:
    title, *lines = scenario.splitlines()
    selector = made(title.rpartition(" [")[0] or title)
    people = {name: Person(name.partition("-")[0]) for name in ("one", "two", "three", "two-2")}
    for line in lines:
        what, *expected = line.split(" | ")
        if what.startswith("hash "):
            _, key, number = what.split(" ")
            assert selector.hash_of(key.encode()) == int(number)
            continue
        person = people[what[1:]]
        (selector.add if what[0] == "+" else selector.remove)(person)
        has = sorted(
            f"{each.name} {str([list(ends) for ends in ranges]).replace(' ', '')}"
            for each, ranges in selector.ranges().items()
        )
        assert has == sorted(expected)


@given(st.sampled_from(["consistent 1", "consistent 7", "auto-split"]), st.data())
def test_the_consumers_share_all_hashes(title: str, data: st.DataObject) -> None:
    selector = made(title)
    there: list[Person] = []
    for _ in range(data.draw(st.integers(1, 12))):
        someone_leaves: bool = data.draw(st.booleans())
        if there and someone_leaves:
            selector.remove(there.pop(data.draw(st.integers(0, len(there) - 1))))
        else:
            there.append(Person(data.draw(st.sampled_from("abc"))))
            selector.add(there[-1])
        sticky_hash = data.draw(st.sampled_from([1, RANGE_SIZE - 1]) | st.integers(1, RANGE_SIZE - 1))
        owner = selector.select(sticky_hash)
        assert (owner in there) if there else (owner is None)
        owners = [person for person, ranges in selector.ranges().items() if holds(ranges, sticky_hash)]
        assert owners == ([owner] if there else [])
        covered = sorted(each for ranges in selector.ranges().values() for each in ranges)
        assert all(one[1] + 1 == other[0] for one, other in pairwise(covered))


@given(
    st.sampled_from(["consistent 3", "auto-split", "exclusive"]),
    st.lists(st.tuples(st.sampled_from("aab"), st.booleans(), st.integers(0, 99)), max_size=12),
    st.lists(st.integers(1, RANGE_SIZE - 1), max_size=20),
)
def test_changes_have_all_hashes_that_changed_their_owner(
    title: str, steps: list[tuple[str, bool, int]], hashes: list[int]
) -> None:
    selector, there = made(title), list[Person]()
    hashes = [1, RANGE_SIZE - 1, *hashes]
    assert not selector.has_changes
    for name, leaves, which in steps:
        before = [selector.select(each) for each in hashes]
        if leaves and there:
            selector.remove(there.pop(which % len(there)))
        else:
            there.append(Person(name, ((650 * which, 650 * which + 99),)))
            if selector.conflicting(there[-1]):
                there.pop()
                continue
            selector.add(there[-1])
        assert selector.has_changes
        changes = selector.take_changes()
        assert not selector.has_changes
        for sticky_hash, owner in zip(hashes, before, strict=True):
            assert selector.select(sticky_hash) is owner or holds(changes, sticky_hash)


@pytest.mark.parametrize("title", ["consistent 100", "auto-split"])
def test_a_consumer_of_many_changes_the_owner_of_few_hashes(title: str) -> None:
    selector = made(title)
    people = [Person(f"{number}") for number in range(100)]
    for person in people:
        selector.add(person)
    selector.take_changes()
    selector.remove(people[7])
    changed = sum(last - first + 1 for first, last in selector.take_changes())
    assert changed < 3 * RANGE_SIZE / len(people)


def holds(ranges: list[tuple[int, int]], sticky_hash: int) -> bool:
    return any(first <= sticky_hash <= last for first, last in ranges)


@given(st.sampled_from(["consistent 3", "auto-split"]), st.lists(st.integers(1, RANGE_SIZE - 1), max_size=20))
def test_a_joining_consumer_takes_the_hashes_that_it_returns_when_it_leaves(title: str, hashes: list[int]) -> None:
    selector = made(title)
    for name in "abc":
        selector.add(Person(name))
    before = [selector.select(each) for each in hashes]
    guest = Person("a")
    selector.add(guest)
    between = [selector.select(each) for each in hashes]
    assert all(now in (then, guest) for then, now in zip(before, between, strict=True))
    selector.remove(guest)
    assert [selector.select(each) for each in hashes] == before


def check_all(selector: Selector[Person], person: Person) -> None:
    check_ranges(person.hash_ranges)
    selector.check(person)


ranges = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=3).map(tuple)


@given(st.lists(ranges, max_size=6), st.integers(1, 21))
def test_sticky_ranges_belong_to_who_asked_first(wanted: list[tuple[tuple[int, int], ...]], sticky_hash: int) -> None:
    selector: HashRangeExclusiveSelector[Person] = HashRangeExclusiveSelector()
    owners: dict[int, Person] = {}
    for each in wanted:
        person = Person("p", each)
        numbers = [number for first, last in each for number in range(first, last + 1)]
        sound = bool(each) and all(first <= last for first, last in each) and len(numbers) == len(set(numbers))
        if sound and not owners.keys() & set(numbers):
            check_all(selector, person)
            selector.add(person)
            owners.update(dict.fromkeys(numbers, person))
        else:
            assert set(selector.conflicting(person)) == {owners[number] for number in numbers if number in owners}
            with pytest.raises(RequestError) as refused:
                check_all(selector, person)
            assert refused.value.code == ServerError.ConsumerAssignError
    assert selector.select(sticky_hash) is owners.get(sticky_hash)
    for person in set(owners.values()):
        assert holds(selector.ranges()[person], sticky_hash) == (owners.get(sticky_hash) is person)
        selector.remove(person)
    assert selector.ranges() == {}


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ((), "Ranges for KeyShared policy must not be empty."),
        (((5, 4),), "Fixed hash range start > end for range: [5,4]"),
        (((0, 9), (5, 20)), "Consumer's own ranges conflict: [0,9] overlaps with [5,20]"),
        (((90, 110),), "Range conflict with consumer owner"),
    ],
)
def test_refusals_say_what_pulsars_say(asked: tuple[tuple[int, int], ...], problem: str) -> None:
    selector: HashRangeExclusiveSelector[Person] = HashRangeExclusiveSelector()
    selector.add(Person("owner", ((100, 200),)))
    with pytest.raises(RequestError, match=re.escape(problem)):
        check_all(selector, Person("newcomer", asked))


def test_there_are_no_more_consumers_than_hashes() -> None:
    selector: HashRangeAutoSplitSelector[Person] = HashRangeAutoSplitSelector()
    selector._ends = list(range(1, RANGE_SIZE + 1))
    with pytest.raises(RequestError, match="No more range"):
        selector.check(Person("one too many"))


def work_of_sticky_ranges(count: int) -> int:
    """Return the work when two consumers subscribe with interleaved hash ranges, ``count`` each, and leave."""
    even, odd = (
        Person("even", tuple((4 * at, 4 * at + 1) for at in range(count))),
        Person("odd", tuple((4 * at + 2, 4 * at + 3) for at in range(count))),
    )
    selector: HashRangeExclusiveSelector[Person] = HashRangeExclusiveSelector()

    def come_and_go() -> None:
        for person in (even, odd):
            check_all(selector, person)
            selector.add(person)
        assert selector.conflicting(odd) == [odd]
        assert (selector.select(5), selector.select(6)) == (even, odd)
        selector.remove(even)
        selector.remove(odd)

    return lines_run(come_and_go)


def test_many_sticky_ranges_take_work_in_proportion() -> None:
    assert work_of_sticky_ranges(400) < 2 * 10 * work_of_sticky_ranges(40)


def test_a_consumer_with_too_many_sticky_ranges_is_refused() -> None:
    cluster = Cluster()
    client = cluster.client()
    policy = pb.KeySharedMeta(keySharedMode=pb.STICKY)
    policy.hashRanges.extend(pb.IntRange(start=at, end=at) for at in range(HASH_RANGES_MAX + 1))
    client.subscribe(kind=Key_Shared, keySharedMeta=policy)
    (refusal,) = client.take("ERROR")
    assert refusal.error == ServerError.ConsumerAssignError
    assert refusal.message.endswith("(maxHashRangesPerConsumer)")
    assert cluster.environment.limit_hits.counts()["maxHashRangesPerConsumer"] == 1
    del policy.hashRanges[-1]
    client.subscribe(kind=Key_Shared, keySharedMeta=policy)
    assert client.take("ERROR") == []


def test_ranges_that_hold_no_hash_are_not_kept() -> None:
    selector: HashRangeExclusiveSelector[Person] = HashRangeExclusiveSelector()
    person = Person("p", ((-9, -1), (7, 8), (RANGE_SIZE, RANGE_SIZE + 9)))
    check_all(selector, person)
    selector.add(person)
    assert selector.ranges() == {person: [(7, 8)]}
    selector.remove(person)
    assert selector.ranges() == {}
