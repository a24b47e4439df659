"""Budgets, figures and names."""

from __future__ import annotations

from magnetar.base.names import NamespaceName
from magnetar.migration.machine.partitions import partitions_of, route_scope
from magnetar.migration.machine.records import Begun
from magnetar.migration.scope import Scope
from magnetar.migration.switching.budget import Budget
from magnetar.migration.switching.figures import Figures, percentile
from magnetar.migration.switching.naming import fence_name, route_scopes

EU, US = "persistent://shop/orders/eu", "persistent://shop/orders/us"


def test_acknowledgements_are_awaited_up_to_their_budget() -> None:
    budget = Budget(total_s=30, acknowledgements_s=2)
    assert budget.is_settled(0, waited_s=0)
    assert not budget.is_settled(1, waited_s=1.9)
    assert budget.is_settled(1, waited_s=2)
    assert not budget.is_settled(None, waited_s=1.9), "it is unknown whether any is missing"
    assert budget.is_settled(None, waited_s=2)
    assert not budget.is_exceeded(29.9)
    assert budget.is_exceeded(30)


def test_percentiles_are_measured_values_and_unknown_without_any() -> None:
    assert percentile([], 50) is None
    assert percentile([7.0], 99) == 7.0
    hundred = [float(value) for value in range(100, 0, -1)]
    assert (percentile(hundred, 50), percentile(hundred, 99)) == (50.0, 99.0)
    figures = Figures()
    figures.routed([EU], 0.25)
    figures.routed([f"{US}-partition-0", f"{US}-partition-1"], None)
    assert (figures.unavailable_ms, figures.unmeasured, len(figures.moved)) == ([250.0], 1, 3)


def test_the_partitions_of_a_topic_have_one_route() -> None:
    parts = [f"{US}-partition-{index}" for index in range(3)]
    known = dict.fromkeys([EU, *parts, f"{US}-partition-9"])
    assert partitions_of(EU, known) == [EU]
    assert partitions_of(parts[1], known) == parts
    assert partitions_of(f"{US}-partition-9", known) == [*parts, f"{US}-partition-9"]
    assert {route_scope(each) for each in parts} == {US}
    assert route_scope(EU) == EU
    assert route_scope(f"{EU}-partition-x") == f"{EU}-partition-x"


def test_names_in_fences_and_routes() -> None:
    assert fence_name(Begun("shop", "ewr", "jfk")) == "shop from ewr to jfk"
    long = [fence_name(Begun("shop/" + end * 300, "ewr", "jfk")) for end in "ab"]
    assert [len(each) for each in long] == [200, 200]
    assert len({fence_name(Begun("x" * 300, "ewr", end)) for end in ("jfk", "lga")}) == 2
    assert route_scopes(Scope("shop")) == ["shop"]
    assert route_scopes(Scope("shop", (NamespaceName("shop", "orders"),))) == ["shop/orders"]
