from __future__ import annotations

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.migration.scope import Scope, scope_named, scope_of

ORDERS, RETURNS = NamespaceName("shop", "orders"), NamespaceName("shop", "returns")
EU, US = (TopicName.parse(f"persistent://shop/orders/{name}") for name in ("eu", "us"))


def test_a_tenant_is_moved_as_a_whole_or_in_parts() -> None:
    assert str(scope_of("shop")) == "shop"
    assert scope_of("shop", [RETURNS, ORDERS, ORDERS]) == Scope("shop", (ORDERS, RETURNS))
    assert str(scope_of("shop", [RETURNS], [US, EU, US])) == f"shop/returns, {EU}, {US}"


def test_a_topic_of_a_moved_namespace_is_no_part_of_its_own() -> None:
    assert scope_of("shop", [ORDERS], [EU]) == Scope("shop", (ORDERS,))


@pytest.mark.parametrize(
    "scope",
    [
        Scope("shop"),
        Scope("shop", (ORDERS,)),
        Scope("shop", (RETURNS,), (EU, US)),
        Scope("shop", (), (TopicName.parse("persistent://shop/orders/a, b"), US)),
    ],
    ids=str,
)
def test_a_scope_is_found_by_its_name(scope: Scope) -> None:
    assert scope_named("shop", str(scope)) == scope


def test_a_scope_includes_the_partitions_of_its_topics() -> None:
    other = TopicName.parse("persistent://shop/returns/eu")
    for scope, included in (
        (Scope("shop"), [True, True, True]),
        (Scope("shop", (ORDERS,)), [True, True, False]),
        (Scope("shop", (RETURNS,), (EU,)), [True, False, True]),
    ):
        assert [scope.includes(topic) for topic in (EU.partition(1), US, other)] == included


@pytest.mark.parametrize(
    ("tenant", "namespaces", "topics", "error"),
    [
        ("pulsar", [], [], "'pulsar' is no tenant that can be moved"),
        ("shop/orders", [], [], "'shop/orders' is no tenant that can be moved"),
        ("shop", [NamespaceName("bank", "orders")], [], "bank/orders does not belong to the tenant shop"),
        ("bank", [], [EU], "persistent://shop/orders/eu does not belong to the tenant bank"),
        ("shop", [], [EU.partition(1)], "hint: name the topic: persistent://shop/orders/eu"),
        ("shop", [], [TopicName.parse("non-persistent://shop/orders/eu")], "stores no messages"),
    ],
)
def test_other_names_are_refused(
    tenant: str, namespaces: list[NamespaceName], topics: list[TopicName], error: str
) -> None:
    with pytest.raises(ConfigurationError, match=error):
        scope_of(tenant, namespaces, topics)
