from __future__ import annotations

from magnetar.migration.planning.findings import NAMED_MAX, Area, Finding, Findings, Severity


def finding(name: str, severity: Severity = Severity.WARNING, detail: str = "") -> Finding:
    return Finding(severity, Area.QUOTAS, name, "too much", "less", detail)


def test_the_same_problem_of_many_resources_is_one_group_of_bounded_size() -> None:
    found = Findings()
    found.add(finding(f"topic-{index}", detail=str(index)) for index in range(10_000))
    (group,) = found.groups()
    assert group.count == found.count(Severity.WARNING) == 10_000
    assert len(group.resources) == NAMED_MAX
    assert group.to_json()["resources"][:2] == [
        {"name": "topic-0", "detail": "0"},
        {"name": "topic-1", "detail": "1"},
    ]


def test_blockers_come_first() -> None:
    found = Findings()
    found.add([finding("a", Severity.NOTE), finding("b", Severity.BLOCKER), finding("c")])
    assert [each.severity for each in found.groups()] == [Severity.BLOCKER, Severity.WARNING, Severity.NOTE]
