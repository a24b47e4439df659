"""Every single fault in a log is found and named, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.audit.comparing.entries import altered, compare
from magnetar.jobs.audit.comparing.order import misplaced
from magnetar.jobs.audit.comparing.windows import Gap, windows
from magnetar.jobs.audit.tables import BUCKET, CHUNK, ENTRIES, Kind, Tally
from tests.unit.jobs.audit.logs import (
    TOPIC,
    Entry,
    described,
    held_of,
    local,
    published,
    runs_of_logs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Logs = Mapping[str, Sequence[Entry]]

LEDGERS = {"ewr": 10, "jfk": 700, "lga": 3_000}
COUNT = 300


def replicated(count: int = COUNT) -> dict[str, list[Entry]]:
    """Return the logs of two clusters; both have all entries of ewr."""
    return {"ewr": published("ewr", LEDGERS["ewr"], count), "jfk": published("ewr", LEDGERS["ewr"], count)}


def audit(logs: Logs, delivered: Mapping[tuple[str, str], Position] | None = None) -> list[dict[str, Any]]:
    """Return all rows of the comparisons of the logs, as the job makes them."""
    found = []
    runs = runs_of_logs(logs, LEDGERS)
    for origin in pc.unique(runs["origin"]).to_pylist():
        of_origin = runs.filter(pc.field("origin") == origin)
        expected = windows(origin, described(logs, LEDGERS, delivered or {}), held_of(origin, logs))
        for ledger in pc.unique(of_origin["origin_ledger"]).to_pylist():
            of_ledger = of_origin.filter(pc.field("origin_ledger") == ledger)
            chunks = pc.divide(of_ledger["origin_entry"], CHUNK)
            for chunk in pc.unique(chunks).to_pylist():
                compared = compare(of_ledger.filter(pc.equal(chunks, chunk)), expected)
                found += compared.to_pylist()
                found += altered(entries_of(compared, logs)).to_pylist()
        for cluster in logs:
            of_cluster = of_origin.filter(pc.field("cluster") == cluster)
            if cluster != origin and len(of_cluster):
                found += misplaced(of_cluster).to_pylist()
    return found


def entries_of(compared: pa.Table, logs: Logs) -> pa.Table:
    """Return the entries of the runs that differ, read again."""
    rows = []
    for run in compared.filter(pc.field("kind") == Tally.DIFFERS.value).to_pylist():
        log, first = logs[run["cluster"]], LEDGERS[run["cluster"]]
        places = {local(first, index): entry for index, entry in enumerate(log)}
        for offset in range(run["count"]):
            entry = places[Position(run["ledger"], run["entry"] + offset)]
            same = {name: run[name] for name in ("topic", "cluster", "origin", "origin_ledger", "ledger")}
            place = {"entry": run["entry"] + offset, "origin_entry": run["origin_entry"] + offset}
            rows.append({**same, **place, "digest": entry.content})
    return pa.Table.from_pylist(rows, ENTRIES)


def findings(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    """Return kind, cluster, and origin position and number of the entries of each finding."""
    kinds = {kind.value for kind in Kind}
    return sorted(
        (row["kind"], row["cluster"], f"{row['origin_ledger']}:{row['origin_entry']}", row["count"])
        for row in rows
        if row["kind"] in kinds
    )


def tally(rows: Sequence[dict[str, Any]], kind: Tally, cluster: str) -> int:
    return sum(row["count"] for row in rows if row["kind"] == kind.value and row["cluster"] == cluster)


def test_equal_logs_have_no_finding_and_every_entry_is_compared() -> None:
    rows = audit(replicated())
    assert findings(rows) == []
    assert tally(rows, Tally.COMPARED, "ewr") == tally(rows, Tally.COMPARED, "jfk") == COUNT
    assert tally(rows, Tally.DIFFERS, "jfk") == 0


@given(st.integers(0, COUNT - 2))
def test_a_dropped_entry_is_lost(index: int) -> None:
    logs = replicated()
    del logs["jfk"][index]
    assert findings(audit(logs)) == [(Kind.LOST, "jfk", f"10:{index}", 1)]


@given(st.integers(0, COUNT - 1), st.integers(0, COUNT))
def test_a_doubled_entry_is_repeated_at_its_later_place(index: int, at: int) -> None:
    logs = replicated()
    logs["jfk"].insert(max(at, index), logs["jfk"][index])
    rows = audit(logs)
    assert findings(rows) == [(Kind.REPEATED, "jfk", f"10:{index}", 1)]
    (repeated,) = [row for row in rows if row["kind"] == Kind.REPEATED]
    assert (repeated["ledger"], repeated["entry"]) == local(LEDGERS["jfk"], max(at, index + 1))


@given(st.integers(0, COUNT - 2), st.integers(1, COUNT))
def test_exchanged_entries_are_reordered(index: int, distance: int) -> None:
    other = min(index + distance, COUNT - 1)
    logs = replicated()
    log = logs["jfk"]
    log[index], log[other] = log[other], log[index]
    named = [index, other] if other - index != 2 else [index, index + 1, other]
    expected = [(Kind.REORDERED.value, "jfk", f"10:{place}", 1) for place in named]
    assert findings(audit(logs)) == sorted(expected)


@given(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1))
def test_a_moved_entry_is_reordered_alone_and_after_one_step_with_its_neighbour(index: int, to: int) -> None:
    logs = replicated()
    log = logs["jfk"]
    log.insert(to, log.pop(index))
    named = {index} if abs(index - to) != 1 else {index, to}
    expected = [(Kind.REORDERED.value, "jfk", f"10:{place}", 1) for place in named if index != to]
    assert findings(audit(logs)) == sorted(expected)


@given(st.integers(0, COUNT - 1), st.sampled_from(["ewr", "jfk"]))
def test_an_altered_entry_is_named_in_the_cluster_that_did_not_publish_it(index: int, where: str) -> None:
    logs = replicated()
    logs[where][index] = replace(logs[where][index], content=-5)
    assert findings(audit(logs)) == [(Kind.ALTERED, "jfk", f"10:{index}", 1)]


@pytest.mark.parametrize("index", [0, BUCKET - 1, BUCKET, 2 * BUCKET - 1])
def test_faults_at_the_bounds_of_buckets_are_named(index: int) -> None:
    logs = replicated(2 * BUCKET + 1)
    logs["jfk"][index] = replace(logs["jfk"][index], content=-5)
    rows = audit(logs)
    assert findings(rows) == [(Kind.ALTERED, "jfk", f"10:{index}", 1)]
    assert tally(rows, Tally.DIFFERS, "jfk") == BUCKET, "other buckets are not read again"
    del logs["jfk"][index]
    assert findings(audit(logs)) == [(Kind.LOST, "jfk", f"10:{index}", 1)]


@given(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1))
def test_exchanged_contents_are_two_altered_entries(one: int, other: int) -> None:
    logs = replicated()
    first, second = logs["jfk"][one], logs["jfk"][other]
    logs["jfk"][one] = replace(first, content=second.content)
    logs["jfk"][other] = replace(second, content=first.content)
    named = {one, other} if one != other else set()
    assert findings(audit(logs)) == sorted((Kind.ALTERED.value, "jfk", f"10:{place}", 1) for place in named)


def test_of_three_clusters_the_one_with_the_fault_is_named() -> None:
    logs = {**replicated(), "lga": published("ewr", LEDGERS["ewr"], COUNT)}
    logs["lga"][7] = replace(logs["lga"][7], content=-5)
    del logs["lga"][200]
    assert findings(audit(logs)) == [(Kind.ALTERED, "lga", "10:7", 1), (Kind.LOST, "lga", "10:200", 1)]


def test_an_entry_that_its_own_cluster_lacks_is_lost_there() -> None:
    logs = replicated()
    missing = Position(9, 4)
    logs["jfk"].insert(0, Entry("ewr", missing, 1))
    expected = windows("ewr", described(logs, LEDGERS, {}), held_of("ewr", logs))
    runs = runs_of_logs({"jfk": logs["jfk"][:1]}, LEDGERS)
    (row,) = compare(runs, expected).to_pylist()
    assert (row["kind"], row["cluster"], row["count"]) == (Tally.NOT_COMPARABLE, "ewr", 1), "it was trimmed"
    lost = runs_of_logs({"jfk": logs["jfk"][6:7]}, LEDGERS)
    (row,) = compare(lost, expected).to_pylist()
    assert (row["kind"], row["cluster"], row["origin_entry"]) == (Kind.LOST, "ewr", 5)


def test_a_missing_entry_that_the_link_skips_is_skipped_and_others_are_lost() -> None:
    logs = replicated()
    del logs["jfk"][20:24]
    known = described(logs, LEDGERS, {})
    known["ewr"] = replace(known["ewr"], skipped={"jfk": (Gap(Position(10, 20), Position(10, 23)),)})
    rows = compare(runs_of_logs(logs, LEDGERS), windows("ewr", known, held_of("ewr", logs))).to_pylist()
    assert findings(rows) == [
        (Kind.LOST, "jfk", "10:20", 1),
        (Kind.LOST, "jfk", "10:23", 1),
        (Kind.SKIPPED, "jfk", "10:21", 2),
    ]


@pytest.mark.parametrize("behind", [1, 17, COUNT])
def test_the_newest_entries_are_in_flight(behind: int) -> None:
    logs = replicated()
    del logs["jfk"][COUNT - behind :]
    rows = audit(logs)
    assert findings(rows) == []
    assert tally(rows, Tally.IN_FLIGHT, "jfk") == behind
    assert tally(rows, Tally.COMPARED, "jfk") == COUNT - behind


def test_newer_entries_in_the_target_than_were_read_in_the_origin_are_in_flight() -> None:
    logs = replicated()
    del logs["ewr"][COUNT - 20 :]
    rows = audit(logs)
    assert findings(rows) == []
    assert tally(rows, Tally.IN_FLIGHT, "ewr") == 20


def test_a_delivered_entry_is_lost_even_if_it_is_the_newest() -> None:
    logs = replicated()
    del logs["jfk"][COUNT - 5 :]
    rows = audit(logs, {("ewr", "jfk"): Position(10, COUNT - 3)})
    assert findings(rows) == [(Kind.LOST, "jfk", f"10:{COUNT - 5}", 3)]
    assert tally(rows, Tally.IN_FLIGHT, "jfk") == 2


def test_an_entry_for_other_clusters_is_not_lost() -> None:
    logs = {**replicated(), "lga": published("ewr", LEDGERS["ewr"], COUNT)}
    for log in logs.values():
        log[40] = replace(log[40], targets="lga")
        log[41] = replace(log[41], targets="jfk,lga")
    del logs["jfk"][40]
    rows = audit(logs)
    assert findings(rows) == []
    del logs["jfk"][40]
    assert findings(audit(logs)) == [(Kind.LOST, "jfk", "10:41", 1)]


def test_both_clusters_publish_and_each_entry_is_compared_once() -> None:
    """The own entries of a log have gaps where those of the other cluster are."""
    first, second = LEDGERS["ewr"], LEDGERS["jfk"]
    of_ewr = [Entry("ewr", local(first, 2 * index), index) for index in range(1_000)]
    of_jfk = [Entry("jfk", local(second, 3 * index + 2), index) for index in range(500)]
    logs: dict[str, list[Entry]] = {"ewr": [], "jfk": []}
    for index in range(1_000):
        logs["ewr"] += [
            of_ewr[index],
            *([of_jfk[index // 2]] if index % 2 == 0 else [Entry("sjc", Position(1, index), 3)]),
        ]
    for index in range(500):
        logs["jfk"] += [of_ewr[2 * index], of_ewr[2 * index + 1], of_jfk[index]]
    rows = audit(logs)
    assert tally(rows, Tally.COMPARED, "jfk") == 1_500
    assert tally(rows, Tally.IN_FLIGHT, "jfk") == 500, "the entries of a cluster that is not part of the audit"
    assert findings(rows) == []
    del logs["ewr"][2 * 100 + 1]
    assert findings(audit({**logs, "ewr": logs["ewr"]}))[0][:2] == (Kind.LOST, "ewr")


def test_chunks_of_a_large_log_are_compared_alone() -> None:
    contents = range(CHUNK - 10, CHUNK + 10)
    log = [Entry("ewr", Position(10, place), place) for place in contents]
    logs = {"jfk": log, "lga": [entry for entry in log if entry.place.entry_id not in (CHUNK - 1, CHUNK)]}
    rows = audit(logs)
    assert findings(rows) == [(Kind.LOST, "lga", f"10:{place}", 1) for place in (CHUNK - 1, CHUNK)]


def test_a_reordered_and_repeated_log_names_both() -> None:
    logs = replicated(30)
    log = logs["jfk"]
    log.insert(20, log[3])
    log.insert(8, log.pop(25))
    assert findings(audit(logs)) == [(Kind.REORDERED, "jfk", "10:24", 1), (Kind.REPEATED, "jfk", "10:3", 1)]


@given(st.permutations(range(9)))
def test_named_entries_are_those_that_a_longest_ordered_sequence_can_lack(order: list[int]) -> None:
    log = [Entry("ewr", local(10, place), place) for place in order]
    rows = misplaced(runs_of_logs({"jfk": log}, LEDGERS)).to_pylist()
    named = {row["origin_entry"] + offset for row in rows for offset in range(row["count"])}
    assert named == set(order).difference(set(order).intersection(*longest_ordered(order)))


def longest_ordered(order: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all longest ascending subsequences, by trying all of them."""
    found: list[tuple[int, ...]] = [()]
    for value in order:
        found += [(*each, value) for each in found if not each or each[-1] < value]
    length = max(map(len, found))
    return [each for each in found if len(each) == length]


def test_topic_and_positions_are_named() -> None:
    logs = replicated(10)
    logs["jfk"][4] = replace(logs["jfk"][4], content=-1)
    (row,) = [row for row in audit(logs) if row["kind"] == Kind.ALTERED]
    assert row == {
        "kind": "altered",
        "topic": TOPIC,
        "subscription": None,
        "cluster": "jfk",
        "origin": "ewr",
        "origin_ledger": 10,
        "origin_entry": 4,
        "count": 1,
        "ledger": 700,
        "entry": 4,
        "other": "ewr",
    }


def test_nothing_is_expected_before_the_first_entry() -> None:
    assert held_of("ewr", {"jfk": []}) == {}
    expected = windows("ewr", described({"ewr": [], "jfk": []}, LEDGERS, {}), {})
    assert [window.through for window in expected] == [EARLIEST, EARLIEST]
