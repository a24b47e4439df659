from __future__ import annotations

import json
from dataclasses import replace

from magnetar.demo.processes.workers import Holding
from magnetar.demo.report import Kill, Report, Switch
from magnetar.demo.samples import Percentiles

PLANNED = Switch(kind="planned", source="ewr", target="jfk", duplicates=0, bound=0, redelivered=9, pause_ms=81.0)
KILL = Kill(
    kind="kill",
    source="jfk",
    target="lga",
    duplicates=12,
    bound=40,
    redelivered=5,
    pause_ms=90.0,
    acknowledged_since_progress=30,
    unacknowledged=10,
    last_progress_age_ms=20.0,
    down_seconds=2.5,
    late=3,
)
GOOD = Report(
    flights=1000,
    published=1000,
    delivered=1000,
    lost=0,
    switches=(PLANNED, KILL),
    replication_ms=Percentiles(4.0, 40.0, 600),
    progress_ms=Percentiles(50.0, 90.0, 70),
    progress_links={},
    progress_age_ms=Percentiles(30.0, 60.0, 70),
    handovers=6,
    holdings=tuple(Holding(name, 1000, 1000, 0, 0) for name in ("ewr", "jfk", "lga")),
    seconds=61.0,
)


def test_a_good_run_has_no_failures() -> None:
    assert GOOD.failures == []


def test_the_json_has_what_others_read() -> None:
    report = json.loads(json.dumps(GOOD.to_json()))
    assert report["flights"] == report["published"] == report["delivered"] == 1000
    assert report["lost"] == 0
    assert [(each["kind"], each["duplicates"], each["bound"]) for each in report["switches"]] == [
        ("planned", 0, 0),
        ("kill", 12, 40),
    ]
    assert report["replication_ms"]["p50"] == 4.0
    assert report["progress_ms"]["p99"] == 90.0
    assert report["clusters"] == {"ewr": 1000, "jfk": 1000, "lga": 1000}
    assert report["seconds"] == 61.0


def test_names_every_broken_promise() -> None:
    bad = replace(
        GOOD,
        published=999,
        lost=2,
        switches=(replace(PLANNED, duplicates=1), replace(KILL, duplicates=41)),
        holdings=(Holding("ewr", 998, 998, 0, 0), Holding("jfk", 1001, 999, 0, 2)),
    )
    assert bad.failures == [
        "1 flights could not be published",
        "2 messages lost",
        "1 duplicates at the planned switch, at most 0 allowed",
        "41 duplicates at the kill switch, at most 40 allowed",
        "ewr holds 998 of 999 flights",
        "jfk holds 2 messages more than once",
    ]


def test_the_table_shows_each_figure_with_its_bound() -> None:
    rows = {row["what"]: (row["result"], row["bound"]) for row in GOOD.rows()}
    assert rows["lost"] == ("0", "0")
    assert rows["planned switch ewr to jfk: duplicates"] == ("0", "at most 0")
    assert rows["kill switch jfk to lga: duplicates"] == ("12", "at most 40")
    assert rows["publish to receive elsewhere, p50 / p99"] == ("4.0 / 40.0 ms", "")


def test_a_message_that_its_producer_sent_twice_is_shown_and_is_no_failure() -> None:
    resent = replace(GOOD, holdings=(Holding("jfk", 1002, 1000, 2, 0),))
    assert resent.failures == []
    assert {
        "what": "jfk holds",
        "result": "1,002 (2 sent twice by their producer)",
        "bound": "1,000 flights",
    } in resent.rows()
