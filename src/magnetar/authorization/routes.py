"""The table of routes: what each request of the admin API requires, as Apache Pulsar 4.0 does."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from magnetar.authorization.needs import (
    ANYONE,
    HANDLER,
    SUPERUSER,
    TENANT_ADMIN,
    Need,
    Scope,
    on_namespace,
    on_topic,
    tenant_operation,
)
from magnetar.authorization.policy_routes import policy_routes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Key = tuple[str, str]
    """Method and path."""

_SUPERUSER_FOR_LINKS: Final = Need(Scope.SUPERUSER, is_for_links=True)
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"


def _of_cluster() -> Iterator[tuple[str, str, Need]]:
    yield "GET", "/admin/v2/clusters", ANYONE
    yield "GET", "/admin/v2/clusters/{cluster}", _SUPERUSER_FOR_LINKS
    one = "/admin/v2/clusters/{cluster}"
    for path in ("", "/peers", "/failureDomains/{domain}", "/namespaceIsolationPolicies/{policy}"):
        yield "POST", f"{one}{path}", SUPERUSER
    for path in ("", "/failureDomains/{domain}", "/namespaceIsolationPolicies/{policy}"):
        yield "DELETE", f"{one}{path}", SUPERUSER
    yield "PUT", one, SUPERUSER
    for path in (
        "/peers",
        "/failureDomains",
        "/failureDomains/{domain}",
        "/namespaceIsolationPolicies",
        "/namespaceIsolationPolicies/{policy}",
        "/namespaceIsolationPolicies/brokers",
        "/namespaceIsolationPolicies/brokers/{broker}",
    ):
        yield "GET", f"{one}{path}", SUPERUSER


def _of_broker() -> Iterator[tuple[str, str, Need]]:
    for path in ("/admin/v2/brokers/ready", "/admin/v2/brokers/version", "/metrics", "/metrics/", "/status.html"):
        yield "GET", path, ANYONE
    root = "/admin/v2/brokers"
    for path in (
        "",
        "/health",
        "/leaderBroker",
        "/configuration/runtime",
        "/{cluster}",
        "/configuration",
        "/configuration/values",
        "/internal-configuration",
        "/{cluster}/{broker}/ownedNamespaces",
    ):
        yield "GET", f"{root}{path}", SUPERUSER
    yield "POST", f"{root}/ledgerIds", SUPERUSER  # an addition of Magnetar
    yield "POST", f"{root}/configuration/{{name}}/{{value}}", SUPERUSER
    yield "DELETE", f"{root}/configuration/{{name}}", SUPERUSER
    stats = "/admin/v2/broker-stats"
    for name in ("metrics", "mbeans", "topics", "destinations", "load-report", "allocator-stats/{allocator}"):
        yield "GET", f"{stats}/{name}", SUPERUSER
    yield "GET", f"{stats}/bookieops", SUPERUSER
    yield "GET", f"{stats}/broker-resource-availability/{{tenant}}/{{namespace}}", SUPERUSER
    yield "GET", f"{stats}/replication", _SUPERUSER_FOR_LINKS
    for path in ("", "/{tenant}/{namespace}/{bundle}"):
        for method in ("GET", "POST"):
            yield method, f"/admin/v2/resource-quotas{path}", SUPERUSER
    yield "DELETE", "/admin/v2/resource-quotas/{tenant}/{namespace}/{bundle}", SUPERUSER


def _of_metadata_sync() -> Iterator[tuple[str, str, Need]]:
    root = "/admin/v2/metadata-sync"
    for name in ("status", "refused", "unknown", "local", "stranded", "snapshot", "history/{resource}"):
        yield "GET", f"{root}/{name}", SUPERUSER
    for name in ("preview", "snapshot", "history/{resource}/{edit}/undo"):
        yield "POST", f"{root}/{name}", SUPERUSER
    for name in ("local", "stranded/{resource}"):
        yield "DELETE", f"{root}/{name}", SUPERUSER


def _of_routes() -> Iterator[tuple[str, str, Need]]:
    root = "/admin/v2/magnetar"
    for path in ("routes", "routes/{scope}", "atlas"):
        yield "GET", f"{root}/{path}", SUPERUSER
    for method in ("PUT", "DELETE"):
        yield method, f"{root}/routes/{{scope}}", SUPERUSER


def _of_tenant() -> Iterator[tuple[str, str, Need]]:
    yield "GET", "/admin/v2/tenants", _SUPERUSER_FOR_LINKS
    yield "GET", "/admin/v2/tenants/{tenant}", tenant_operation("GET_TENANT")
    for method in ("PUT", "POST", "DELETE"):
        yield method, "/admin/v2/tenants/{tenant}", SUPERUSER
    yield "GET", "/admin/v2/namespaces/{tenant}", tenant_operation("LIST_NAMESPACES", is_for_links=True)
    yield "PUT", _NAMESPACE, tenant_operation("CREATE_NAMESPACE")
    yield "DELETE", _NAMESPACE, tenant_operation("DELETE_NAMESPACE")


def _of_namespace() -> Iterator[tuple[str, str, Need]]:
    yield "GET", f"{_NAMESPACE}/topics", on_namespace("GET_TOPICS", is_for_links=True)
    yield "GET", f"{_NAMESPACE}/bundles", on_namespace("GET_BUNDLE")
    yield "GET", "/lookup/v2/topic/persistent/{tenant}/{namespace}/{topic}/bundle", on_namespace("GET_BUNDLE")
    for path in ("unload", "{bundle}/unload", "{bundle}/split"):
        yield "PUT", f"{_NAMESPACE}/{path}", SUPERUSER
    yield "DELETE", f"{_NAMESPACE}/{{bundle}}", on_namespace("DELETE_BUNDLE")
    for bundle in ("", "/{bundle}"):
        yield "POST", f"{_NAMESPACE}{bundle}/clearBacklog", on_namespace("CLEAR_BACKLOG")
        yield "POST", f"{_NAMESPACE}{bundle}/clearBacklog/{{subscription}}", on_namespace("CLEAR_BACKLOG")
        yield "POST", f"{_NAMESPACE}{bundle}/unsubscribe/{{subscription}}", on_namespace("UNSUBSCRIBE")
    for method in ("GET", "PUT", "DELETE"):
        yield method, f"{_NAMESPACE}/properties", TENANT_ADMIN
    for method, path in (("GET", "{key}"), ("PUT", "{key}/{value}"), ("DELETE", "{key}")):
        yield method, f"{_NAMESPACE}/property/{path}", TENANT_ADMIN
    for method in ("GET", "POST", "DELETE"):
        yield method, f"{_NAMESPACE}/persistence/bookieAffinity", SUPERUSER
    # Apache Pulsar asks the tenant of a query parameter for its admin.
    for root in ("/admin/v2/namespaces", "/admin/namespaces"):
        yield "GET", f"{root}/{{cluster}}/antiAffinity/{{group}}", SUPERUSER


def _of_permissions() -> Iterator[tuple[str, str, Need]]:
    root = f"{_NAMESPACE}/permissions"
    for path in ("", "/subscription"):
        yield "GET", f"{root}{path}", on_namespace("GET_PERMISSION")
    for path in ("/{role}", "/subscription/{subscription}"):
        yield "POST", f"{root}{path}", on_namespace("GRANT_PERMISSION")
    for path in ("/{role}", "/{subscription}/{role}"):
        yield "DELETE", f"{root}{path}", on_namespace("REVOKE_PERMISSION")
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/permissions"
    for method, path in (("GET", topic), ("POST", f"{topic}/{{role}}"), ("DELETE", f"{topic}/{{role}}")):
        yield method, path, TENANT_ADMIN
    for name in ("grantPermissionsOnTopics", "revokePermissionsOnTopics"):
        yield "POST", f"/admin/v2/namespaces/{name}", HANDLER


def _of_topics(domain: str) -> Iterator[tuple[str, str, Need]]:
    """Yield the rows of topics of one domain; some of them have no route for non-persistent topics."""
    namespace = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}"
    topic = f"{namespace}/{{topic}}"
    yield "GET", namespace, on_namespace("GET_TOPICS", is_for_links=True)
    yield "GET", f"{namespace}/partitioned", on_namespace("GET_TOPICS")
    yield "GET", f"/lookup/v2/topic/{domain}/{{tenant}}/{{namespace}}/{{topic}}", on_topic("LOOKUP")
    yield "PUT", topic, on_namespace("CREATE_TOPIC")
    yield "PUT", f"{topic}/partitions", on_namespace("CREATE_TOPIC")
    yield "POST", f"{topic}/createMissedPartitions", on_namespace("CREATE_TOPIC")
    yield "DELETE", topic, on_namespace("DELETE_TOPIC")
    yield "DELETE", f"{topic}/partitions", on_namespace("DELETE_TOPIC")
    yield "POST", f"{topic}/partitions", Need(Scope.TOPIC_POLICY, "WRITE", "PARTITION")
    yield "PUT", f"{topic}/unload", on_topic("UNLOAD")
    for name in ("stats", "internalStats", "partitioned-stats", "partitioned-internalStats"):
        yield "GET", f"{topic}/{name}", on_topic("GET_STATS", is_for_links=True)
    yield "GET", f"{topic}/internal-info", on_topic("GET_STATS")
    yield "GET", f"{topic}/partitions", on_topic("LOOKUP", is_for_links=True)
    for name in ("lastMessageId", "messageid/{timestamp:int}", "examinemessage"):
        yield "GET", f"{topic}/{name}", on_topic("PEEK_MESSAGES")
    yield "GET", f"{topic}/properties", on_topic("GET_METADATA")
    yield "PUT", f"{topic}/properties", on_topic("UPDATE_METADATA")
    yield "DELETE", f"{topic}/properties", on_topic("DELETE_METADATA")
    yield "PUT", f"{topic}/backlogSize", on_topic("GET_BACKLOG_SIZE")
    yield "POST", f"{topic}/trim", on_topic("TRIM_TOPIC")
    yield "DELETE", f"{topic}/truncate", TENANT_ADMIN
    for path in ("terminate", "terminate/partitions"):
        yield "POST", f"{topic}/{path}", on_topic("TERMINATE")
    yield "GET", f"{topic}/offload", on_topic("OFFLOAD")
    yield "GET", f"{topic}/compaction", on_topic("COMPACT")
    yield "PUT", f"{topic}/shadowTopics", Need(Scope.TOPIC_POLICY, "WRITE", "SHADOW_TOPIC")
    yield "GET", f"{topic}/ledger/{{ledger:int}}/entry/{{entry:int}}", on_topic("PEEK_MESSAGES")
    # Additions of Magnetar.
    yield "POST", f"{topic}/replicatedSubscriptionSnapshot", TENANT_ADMIN
    yield "POST", f"{topic}/replication/{{cluster}}/skipEntries", TENANT_ADMIN
    yield "GET", f"{topic}/subscriptionProtection", on_topic("GET_STATS")
    yield "GET", f"{topic}/producerState", SUPERUSER
    yield "PUT", f"{topic}/producerState", SUPERUSER
    yield "GET", f"{topic}/formerCluster", on_topic("GET_METADATA")
    yield "PUT", f"{topic}/formerCluster/{{cluster}}", TENANT_ADMIN
    yield "DELETE", f"{topic}/formerCluster", TENANT_ADMIN
    for method in ("GET", "PUT", "DELETE"):
        yield method, f"{topic}/fence", SUPERUSER
    entry = "ledger/{ledger:int}/entry/{entry:int}"
    for path in (f"{entry}/origin", f"origin/{{cluster}}/{entry}"):
        yield "GET", f"{topic}/{path}", on_topic("PEEK_MESSAGES")


def _of_subscriptions(domain: str) -> Iterator[tuple[str, str, Need]]:
    topic = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"
    one = f"{topic}/subscription/{{subscription}}"
    yield "GET", f"{topic}/subscriptions", on_topic("GET_SUBSCRIPTIONS")
    yield "POST", f"{topic}/all_subscription/expireMessages/{{seconds:int}}", on_topic("EXPIRE_MESSAGES")
    yield "PUT", one, on_topic("SUBSCRIBE")
    yield "DELETE", one, on_topic("UNSUBSCRIBE")
    for path in ("skip/{count:int}", "skip_all"):
        yield "POST", f"{one}/{path}", on_topic("SKIP")
    for path in ("resetcursor", "resetcursor/{timestamp:int}"):
        yield "POST", f"{one}/{path}", on_topic("RESET_CURSOR")
    for path in ("expireMessages", "expireMessages/{seconds:int}"):
        yield "POST", f"{one}/{path}", on_topic("EXPIRE_MESSAGES")
    yield "GET", f"{one}/properties", on_topic("CONSUME")
    yield "PUT", f"{one}/properties", on_topic("SUBSCRIBE")
    yield "GET", f"{one}/replicatedSubscriptionStatus", on_topic("GET_REPLICATED_SUBSCRIPTION_STATUS")
    yield "POST", f"{one}/replicatedSubscriptionStatus", on_topic("SET_REPLICATED_SUBSCRIPTION_STATUS")
    yield "GET", f"{one}/position/{{message:int}}", on_topic("PEEK_MESSAGES")
    yield "POST", f"{one}/analyzeBacklog", on_topic("CONSUME")
    # An addition of Magnetar: the exact progress of a subscription.
    yield "GET", f"{one}/acknowledgements", on_topic("CONSUME")


def _of_schemas() -> Iterator[tuple[str, str, Need]]:
    root = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
    for path in ("schema", "schema/{version}", "schemas"):
        yield "GET", f"{root}/{path}", on_topic("GET_METADATA")
    yield "POST", f"{root}/version", on_topic("GET_METADATA")
    yield "POST", f"{root}/schema", on_topic("PRODUCE")
    yield "DELETE", f"{root}/schema", TENANT_ADMIN
    yield "POST", f"{root}/compatibility", TENANT_ADMIN


def _rows() -> Iterator[tuple[str, str, Need]]:
    yield from _of_cluster()
    yield from _of_broker()
    yield from _of_metadata_sync()
    yield from _of_routes()
    yield from _of_tenant()
    yield from _of_namespace()
    yield from _of_permissions()
    for domain in ("persistent", "non-persistent"):
        yield from _of_topics(domain)
        yield from _of_subscriptions(domain)
    yield from _of_schemas()
    yield from policy_routes()


ROUTES: Final[Mapping[Key, Need]] = MappingProxyType({(method, path): need for method, path, need in _rows()})
"""Requirements by method and path. The domain non-persistent has rows that no route uses."""


def need_of(method: str, path: str) -> Need:
    """Return what a request requires; a superuser for a route that the table lacks."""
    return ROUTES.get(("GET" if method == "HEAD" else method, path), SUPERUSER)
