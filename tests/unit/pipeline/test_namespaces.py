from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName
from magnetar.pipeline.namespaces import POLLS_PER_POLICY, NamespaceWatch
from magnetar.pipeline.options import ClusterAddress, ReplicationOptions

if TYPE_CHECKING:
    from collections.abc import Callable

EWR = ClusterAddress("ewr", "pulsar://ewr", "http://ewr")
JFK = ClusterAddress("jfk", "pulsar://jfk", "http://jfk")
APACHE = ClusterAddress("apache", "pulsar://apache", "http://apache")
OTHER = ClusterAddress("other", "pulsar://other", "http://other")

ORDERS, FLIGHTS, LOCAL = (NamespaceName.parse(f"shop/{name}") for name in ("orders", "flights", "local"))


class Admins:
    """The policies of every cluster, and its availability."""

    def __init__(self) -> None:
        self.policies: dict[str, dict[str, list[str]]] = {name: {} for name in ("ewr", "jfk", "apache", "other")}
        self.silent: set[str] = set()

    def client(self, cluster: ClusterAddress) -> AdminClient:
        return AdminClient(cluster.admin_url, transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host
        if name in self.silent:
            message = "no route"
            raise httpx.ConnectError(message)
        policies = self.policies[name]
        headers = {"Server": "Magnetar 1"} if name in {"ewr", "jfk"} else {}
        resources: dict[str, Any] = {
            "/admin/v2/brokers/version": "1",
            "/admin/v2/tenants": ["shop"],
            "/admin/v2/namespaces/shop": [f"shop/{namespace}" for namespace in policies],
        }
        resources |= {
            f"/admin/v2/namespaces/shop/{namespace}/replication": clusters for namespace, clusters in policies.items()
        }
        found = resources.get(request.url.path)
        status, body = (200, found) if found is not None else (404, {"reason": "none"})
        return httpx.Response(status, json=body, headers=headers)


@pytest.fixture
def admins() -> Admins:
    return Admins()


@pytest.fixture
def watch(admins: Admins) -> Callable[..., NamespaceWatch]:
    def make(source: ClusterAddress, target: str, *namespaces: str) -> NamespaceWatch:
        options = ReplicationOptions((EWR, JFK, APACHE, OTHER), namespaces=namespaces)
        return NamespaceWatch(source, target, options, lambda *_: None, admins.client)

    return make


def test_a_magnetar_says_itself_what_it_replicates(admins: Admins, watch: Callable[..., NamespaceWatch]) -> None:
    admins.policies["ewr"] = {"orders": ["ewr", "jfk"], "local": ["ewr"], "flights": ["ewr", "apache"]}
    assert watch(EWR, "jfk").ask() == ((ORDERS,), "")
    assert watch(EWR, "apache").ask() == ((FLIGHTS,), "")


def test_any_magnetar_may_name_namespaces_of_apache_pulsar(
    admins: Admins, watch: Callable[..., NamespaceWatch]
) -> None:
    admins.policies["apache"] = {"orders": ["apache"], "flights": ["apache"]}
    admins.policies["ewr"] = {"orders": ["ewr", "jfk", "apache"]}
    admins.policies["jfk"] = {"flights": ["jfk", "apache"]}
    assert watch(APACHE, "ewr").ask() == ((ORDERS,), "")
    assert watch(APACHE, "jfk").ask() == ((FLIGHTS, ORDERS), "")


def test_namespaces_replicated_by_apache_pulsar_are_not_carried(
    admins: Admins, watch: Callable[..., NamespaceWatch]
) -> None:
    admins.policies["ewr"] = {"orders": ["ewr", "apache"]}
    admins.policies["apache"] = {"orders": ["ewr", "apache"]}
    assert watch(APACHE, "ewr").ask() == ((), "")
    assert watch(APACHE, "ewr", "shop/orders").ask() == ((), "")


def test_between_two_apache_pulsars_the_namespaces_are_named(
    admins: Admins, watch: Callable[..., NamespaceWatch]
) -> None:
    assert watch(APACHE, "other", "shop/local").ask() == ((LOCAL,), "")


def test_while_a_magnetar_is_silent_what_it_said_holds(admins: Admins, watch: Callable[..., NamespaceWatch]) -> None:
    admins.policies["ewr"] = {"orders": ["ewr", "apache"]}
    asked = watch(APACHE, "ewr")
    assert asked.ask() == ((ORDERS,), "")
    admins.silent.add("ewr")
    for _ in range(POLLS_PER_POLICY + 1):
        names, reason = asked.ask()
        assert names == (ORDERS,)
        assert "http://ewr" in reason


def test_while_the_source_is_silent_nothing_is_known(admins: Admins, watch: Callable[..., NamespaceWatch]) -> None:
    admins.policies["ewr"] = {"orders": ["ewr", "apache"]}
    admins.silent.add("apache")
    names, reason = watch(APACHE, "ewr").ask()
    assert names is None
    assert "http://apache" in reason


def test_a_policy_that_changes_is_heard_of(admins: Admins, watch: Callable[..., NamespaceWatch]) -> None:
    admins.policies["ewr"] = {"orders": ["ewr", "jfk"]}
    asked = watch(EWR, "jfk")
    assert asked.ask() == ((ORDERS,), "")
    admins.policies["ewr"]["orders"] = ["ewr"]
    for _ in range(POLLS_PER_POLICY):
        answer = asked.ask()
    assert answer == ((), "")


def test_a_late_answer_after_the_stop_is_dropped_and_the_clients_are_closed(
    admins: Admins, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    asked = NamespaceWatch(
        EWR, "jfk", ReplicationOptions((EWR, JFK)), lambda *answer: told.append(answer), admins.client
    )
    answer = asked.ask

    def late() -> tuple[tuple[NamespaceName, ...] | None, str]:
        asked.stop()
        return answer()

    monkeypatch.setattr(asked, "ask", late)
    closed: list[bool] = []
    monkeypatch.setattr(asked._own, "close", lambda: closed.append(True))
    asked.start()
    asked._thread.join()
    assert (told, closed) == ([], [True])
