from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.routes.scope import parse_scope, scopes_of
from magnetar.metadata.routes.table import EPOCH_MAX, Route, RouteTable, next_epoch, routes_from_json

if TYPE_CHECKING:
    from random import Random

TOPIC = TopicName.parse("persistent://acme/orders/a")
ORDERS = NamespaceName("acme", "orders")

scopes = st.sampled_from(["acme", "acme/orders", str(TOPIC), "persistent://acme/orders/b", "umbrella"])
routes = st.builds(Route, st.none() | st.sampled_from(["ewr", "jfk", "lga"]), st.integers(1, 5))
changes = st.lists(st.tuples(scopes, routes), max_size=12)


def test_the_most_specific_route_counts() -> None:
    table = RouteTable({"acme": Route("ewr", 9)})
    assert table.find(TOPIC) == ("acme", Route("ewr", 9))
    table.set("acme/orders", Route("jfk", 1))
    assert table.find(TOPIC) == ("acme/orders", Route("jfk", 1))
    table.set(str(TOPIC), Route("lga", 1))
    found = table.find(TOPIC.partition(3))
    assert found is not None
    assert (found.scope, found.cluster) == (str(TOPIC), "lga")
    assert table.find(TopicName.parse("persistent://acme/orders/other")) == ("acme/orders", Route("jfk", 1))
    assert table.find(TopicName.parse("persistent://umbrella/orders/a")) is None


def test_a_deleted_route_leaves_the_topic_to_the_next_one_and_keeps_its_epoch() -> None:
    table = RouteTable({"acme": Route("ewr", 1), "acme/orders": Route("jfk", 5)})
    table.set("acme/orders", Route(None, 6))
    assert table.find(TOPIC) == ("acme", Route("ewr", 1))
    assert table.merge({"acme/orders": Route("jfk", 5)}) == []
    assert table.get("acme/orders") == Route(None, 6)
    assert len(table) == 1


def test_a_namespace_has_its_own_route_and_those_of_its_topics() -> None:
    table = RouteTable(
        {"acme": Route("ewr", 1), str(TOPIC): Route("jfk", 2), "persistent://acme/orders/b": Route(None, 3)}
    )
    assert table.find_for_namespace(ORDERS) == ("acme", Route("ewr", 1))
    assert table.topics_in(ORDERS) == {str(TOPIC): Route("jfk", 2)}
    table.set(str(TOPIC), None)
    assert table.topics_in(ORDERS) == {}


@given(changes, st.randoms(use_true_random=False))
def test_tables_that_heard_of_the_same_changes_in_any_order_are_equal(
    made: list[tuple[str, Route]], random: Random
) -> None:
    """The twin looks for the greatest epoch of each scope at the end."""
    expected = {
        scope: max((route for each, route in made if each == scope), key=lambda each: (each.epoch, each.cluster or ""))
        for scope, _ in made
    }
    shuffled = random.sample(made, len(made))
    table, other = RouteTable(), RouteTable()
    for scope, route in made:
        table.merge({scope: route})
    for scope, route in shuffled:
        other.merge({scope: route})
        other.merge({scope: route})
    assert table.all() == other.all() == dict(sorted(expected.items()))
    assert table.version == other.version == RouteTable(expected).version


@given(changes)
def test_a_table_survives_json(made: list[tuple[str, Route]]) -> None:
    table = RouteTable(dict(made))
    assert RouteTable(routes_from_json(json.loads(json.dumps(table.to_json())))).all() == table.all()


def test_different_tables_have_different_versions() -> None:
    tables = [
        {},
        {"acme": Route("ewr", 1)},
        {"acme": Route("ewr", 2)},
        {"acme": Route("jfk", 1)},
        {"acme": Route(None, 1)},
    ]
    assert len({RouteTable(each).version for each in tables}) == len(tables)


def test_an_epoch_is_the_time_or_more_than_the_one_before() -> None:
    assert next_epoch(None, 1_000) == next_epoch(Route("ewr", 5), 1_000) == 1_000
    assert next_epoch(Route("ewr", 1_000), 1_000) == next_epoch(Route("ewr", 1_000), 3) == 1_001


@pytest.mark.parametrize(
    "text",
    ["", "a/b/c", "acme/", "ac me", "persistent://acme/orders", "persistent://acme/orders/a-partition-0", "x://a/b/c"],
)
def test_a_text_that_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(InvalidTopicNameError):
        parse_scope(text)


@pytest.mark.parametrize("topic", [TOPIC, TopicName.parse("non-persistent://acme/orders/b c")])
def test_the_scopes_of_a_topic_are_scopes(topic: TopicName) -> None:
    assert [parse_scope(each) for each in scopes_of(topic.partition(2))] == list(scopes_of(topic))


@pytest.mark.parametrize(
    "route",
    [
        {},
        {"epoch": 0},
        {"epoch": EPOCH_MAX},
        {"epoch": True},
        {"epoch": 1, "cluster": "a b"},
        {"epoch": 1, "cluster": "x" * 256},
        {"epoch": 1, "cluster": 3},
        {"epoch": "1"},
        [],
    ],
)
def test_what_is_no_route_is_refused_with_its_scope(route: object) -> None:
    with pytest.raises(ValueError, match=r"^acme: "):
        routes_from_json({"acme": route})
