"""The report of an audit, and how the command shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.cli import pipeline_audit
from magnetar.cli.output import Output
from magnetar.jobs.audit.report import Counts, NotCompared, Report, counts_of

if TYPE_CHECKING:
    import pytest

TOPIC = "persistent://public/default/orders"
LOST = {
    "kind": "lost",
    "topic": TOPIC,
    "subscription": None,
    "cluster": "jfk",
    "origin": "ewr",
    "origin_ledger": 5,
    "origin_entry": 7,
    "count": 2,
    "ledger": None,
    "entry": None,
    "other": None,
}


def report(findings: int) -> Report:
    return Report(
        clusters=["ewr", "jfk"],
        counts=[Counts(topic=TOPIC, cluster="jfk", compared=1_234, in_flight=5, findings=findings)],
        entries_read=2_468,
        subscriptions_compared=3,
        subscriptions_not_compared=[NotCompared(topic=TOPIC, subscription="s", reason="it is not replicated")],
        by_kind={"lost": findings} if findings else {},
        findings=[LOST] * findings,
    )


def test_the_verdict_is_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline_audit.show_report(report(0), Output.TEXT)
    shown = capsys.readouterr()
    assert "no difference was found; 3 subscriptions were compared" in shown.err
    assert f"subscription s of {TOPIC} was not compared: it is not replicated" in shown.err
    assert "1,234" in shown.out
    pipeline_audit.show_report(report(1), Output.JSON)
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["findingsByKind"], found["findingsOmitted"]) == ("different", {"lost": 1}, 0)
    assert found["findings"] == [
        {"kind": "lost", "topic": TOPIC, "cluster": "jfk", "origin": "ewr", "originPosition": "5:7", "entries": 2}
    ]


def test_many_findings_are_shown_in_part(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_audit, "_SHOWN_MAX", 2)
    pipeline_audit.show_report(report(3), Output.TEXT)
    shown = capsys.readouterr()
    assert shown.out.count("ewr 5:7") == 2
    assert "1 further findings" in shown.err
    assert "the clusters differ: 3 lost; 3 subscriptions were compared" in shown.err


def test_counts_are_by_topic_and_cluster() -> None:
    tallies = [
        {"kind": kind, "topic": TOPIC, "cluster": "jfk", "count": count}
        for kind, count in (("compared", 5), ("in flight", 3), ("not comparable", 2), ("lost", 9), ("differs", 9))
    ]
    found = counts_of([TOPIC], ["ewr", "jfk"], tallies, [{"topic": TOPIC, "cluster": "jfk", "findings": 1}])
    assert found == [
        Counts(topic=TOPIC, cluster="ewr"),
        Counts(topic=TOPIC, cluster="jfk", compared=5, in_flight=3, not_comparable=2, findings=1),
    ]
