"""The division of a target's links among the tasks of a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.driver.division import Division, read_division, write_division
from magnetar.pipeline.driver.slots import parallelism_of
from magnetar.pipeline.driver.source import LeaseStreamReader, TargetPartition
from magnetar.pipeline.limits import PARALLELISM_MAX
from magnetar.pipeline.options import ClusterAddress, ReplicationOptions
from magnetar.pipeline.spreading import ALL_BUCKETS, NO_TRAFFIC, Traffic, spread
from magnetar.wire.links import LINK_BUCKETS, link_bucket

if TYPE_CHECKING:
    from pathlib import Path

CLUSTERS = tuple(ClusterAddress(name, f"pulsar://{name}:6650", f"http://{name}:8080") for name in ("ewr", "jfk"))


def busy(**bytes_by_bucket: int) -> list[int]:
    """Return a traffic; the names of the arguments are ``b0`` and so on."""
    return [bytes_by_bucket.get(f"b{bucket}", 0) for bucket in range(LINK_BUCKETS)]


@given(
    st.lists(st.integers(0, 2**40), min_size=LINK_BUCKETS, max_size=LINK_BUCKETS),
    st.integers(1, LINK_BUCKETS),
)
def test_each_bucket_has_one_task_and_no_task_has_more_than_it_must(traffic: list[int], parts: int) -> None:
    sets = spread(traffic, parts)
    assert sorted(bucket for each in sets for bucket in each) == list(range(LINK_BUCKETS))
    loads = [sum(traffic[bucket] for bucket in each) for each in sets]
    # The greedy choice: a set got its lightest bucket when no other set was lighter.
    for each, load in zip(sets, loads, strict=True):
        assert load - min(traffic[bucket] for bucket in each) <= min(loads) + LINK_BUCKETS


def test_busy_buckets_are_kept_apart_and_idle_ones_divided_evenly() -> None:
    assert sorted(map(len, spread(NO_TRAFFIC, 3))) == [21, 21, 22]
    first, second = spread(busy(b3=1000, b4=1000), 2)
    assert {3, 4} not in (first & {3, 4}, second & {3, 4})
    assert abs(len(first) - len(second)) <= 1
    alone, others = spread(busy(b5=1000), 2)
    assert alone == {5}
    assert len(others) == LINK_BUCKETS - 1
    assert spread(busy(b5=1000), 1) == [ALL_BUCKETS]


def test_the_bucket_of_a_topic_is_the_same_everywhere() -> None:
    names = [f"persistent://public/default/t{number}" for number in range(1000)]
    assert [link_bucket(name) for name in names[:4]] == [20, 2, 56, 46]
    counts = [sum(link_bucket(name) == bucket for name in names) for bucket in range(LINK_BUCKETS)]
    assert 0 < min(counts) <= max(counts) < 40


def test_the_traffic_is_that_of_all_tasks_of_the_newest_leases() -> None:
    traffic = Traffic()
    traffic.heard("jfk", 7, 0, busy(b1=100))
    traffic.heard("jfk", 8, 0, busy(b1=1))
    traffic.heard("jfk", 8, 1, busy(b2=5))
    traffic.heard("jfk", 8, 0, busy(b1=2))
    traffic.heard("ewr", 8, 0, busy(b9=1))
    assert traffic.by_target() == {"jfk": busy(b1=102, b2=5), "ewr": busy(b9=1)}
    traffic.heard("jfk", 9, 0, busy(b3=1))
    assert traffic.by_target()["jfk"] == busy(b1=2, b2=5, b3=1)


def test_a_lease_has_the_tasks_of_each_target(tmp_path: Path) -> None:
    file = tmp_path / "division.json"
    options = ReplicationOptions(CLUSTERS, parallelism=2, division_path=str(file))

    def divided() -> dict[tuple[str, int], frozenset[int]]:
        found = LeaseStreamReader(options).partitions({"lease": 7}, {"lease": 8})
        assignments = [each.assignment for each in found if isinstance(each, TargetPartition)]
        assert {each.lease for each in assignments} == {8}
        return {(each.target, each.part): each.buckets for each in assignments}

    evenly = divided()
    assert sorted(evenly) == [("ewr", 0), ("ewr", 1), ("jfk", 0), ("jfk", 1)]
    assert evenly["jfk", 0] | evenly["jfk", 1] == ALL_BUCKETS
    write_division(file, Division(2, {"jfk": busy(b5=1000)}))
    assert divided() == {**evenly, ("jfk", 0): frozenset({5}), ("jfk", 1): ALL_BUCKETS - {5}}
    write_division(file, Division(1))
    assert divided() == {("ewr", 0): ALL_BUCKETS, ("jfk", 0): ALL_BUCKETS}
    for traffic in ("1", '{"jfk": [1]}', '{"jfk": null}', '{"jfk": ["x"]}'):
        file.write_text(f'{{"parallelism": 3, "traffic": {traffic}}}')
        assert divided() == evenly
    for damaged in ("", "[]", "{}", '{"parallelism": null, "traffic": {}}'):
        file.write_text(damaged)
        assert divided() == evenly
    assert read_division(str(tmp_path), 4) == Division(4)
    write_division(tmp_path / "missing" / "file", Division(1))  # it cannot be written: nothing happens


def test_the_number_of_tasks_follows_the_slots_and_has_bounds() -> None:
    assert [parallelism_of(slots, targets=3) for slots in (0, 6, 12, 23, 24, 1000)] == [1, 1, 1, 1, 2, PARALLELISM_MAX]
    for wrong in (0, LINK_BUCKETS + 1):
        with pytest.raises(ConfigurationError, match=f"parallelism: {wrong} is not between 1 and {LINK_BUCKETS}"):
            ReplicationOptions(CLUSTERS, parallelism=wrong)
