"""The dashboards and alert rules in ``deploy`` against the exposed metrics: names, labels, and texts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.unit.admin.exposed import exposed

ROOT = Path(__file__).parents[3]
DASHBOARDS = sorted((ROOT / "deploy" / "dashboards").glob("*.json"))
RULES = sorted((ROOT / "deploy" / "alerts").glob("*.yaml"))

OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds."""


class Expression(NamedTuple):
    """An expression of PromQL, and the labels that its texts show."""

    where: str
    text: str
    shown: frozenset[str] = frozenset()


@cache
def labels_of() -> dict[str, set[str]]:
    """Return the labels of each exposed metric."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, labels, _ in exposed():
        found[name] |= set(labels)
    return found


def of_dashboards() -> list[Expression]:
    found = []
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                shown = frozenset(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                found.append(Expression(f"{path.name}: {panel['title']}", target["expr"], shown))
    return found


def of_alerts() -> list[Expression]:
    found = []
    for path in RULES:
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                shown = frozenset(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
                found.append(Expression(f"{path.name}: {rule['alert']}", rule["expr"], shown))
    return found


def names_in(expression: str) -> list[str]:
    return re.findall(r"\b(?:magnetar|pulsar|process)_\w+", expression)


def problems(expression: Expression) -> list[str]:
    """Return the names and labels that do not exist."""
    found = [f"no metric {name}" for name in names_in(expression.text) if name not in labels_of()]
    for name, matchers in re.findall(r"\b(\w+){([^}]*)}", expression.text):
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        found += [f"{name} has no label {each}" for each in used - labels_of().get(name, set())]
    of_all = set.union(*[labels_of().get(name, set()) for name in names_in(expression.text)], OF_PROMETHEUS)
    kept = [set(re.split(r",\s*", each)) for each in re.findall(r"\bby \(([^)]*)\)", expression.text)]
    found += [f"no metric has the label {each}" for each in set[str]().union(*kept) - of_all]
    left = kept[0] if kept else of_all
    found += [f"the result has no label {each}" for each in expression.shown - left]
    return found


def test_there_are_dashboards_and_rules() -> None:
    assert {path.stem for path in DASHBOARDS} == {"metadata", "progress", "protection", "replication"}
    assert RULES


@pytest.mark.parametrize("expression", [*of_dashboards(), *of_alerts()], ids=lambda each: each.where)
def test_names_and_labels_exist(expression: Expression) -> None:
    assert names_in(expression.text), "no metric of Magnetar"
    assert problems(expression) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sum by (cluster) (pulsar_rate_inn)", "no metric pulsar_rate_inn"),
        ('pulsar_rate_in{tpoic="t"}', "pulsar_rate_in has no label tpoic"),
        ("sum by (subscription) (pulsar_rate_in)", "no metric has the label subscription"),
        ("sum by (cluster) (pulsar_rate_in)", "the result has no label topic"),
    ],
)
def test_a_mistake_is_found(text: str, problem: str) -> None:
    assert problem in problems(Expression("", text, frozenset({"topic"})))


def variables(dashboard: dict[str, Any]) -> list[Expression]:
    return [
        Expression(each["name"], each["query"]) for each in dashboard["templating"]["list"] if each["type"] == "query"
    ]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_loaded_and_explains_itself(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    assert dashboard["uid"] == f"magnetar-{path.stem}"
    assert [problems(each) for each in variables(dashboard)] == [[]] * len(variables(dashboard))
    known = {each["name"] for each in dashboard["templating"]["list"]}
    panels = dashboard["panels"]
    used = set(re.findall(r"\$(\w+)", json.dumps([panel["targets"] for panel in panels])))
    assert used <= known
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len({str(panel["gridPos"]) for panel in panels}) == len(panels)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_rule_has_a_severity_and_texts(path: Path) -> None:
    rules = [rule for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}
        for guide in re.findall(r"docs/[\w/.-]+\.md", rule["annotations"]["description"]):
            assert (ROOT / guide).exists(), guide
