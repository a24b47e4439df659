"""Decisions about roles, against a table."""

from __future__ import annotations

import pytest

from magnetar.authorization.decisions import Refusal, Rules, State, refusal
from magnetar.authorization.needs import (
    ANYONE,
    AUTHENTICATED,
    HANDLER,
    OWN,
    REPLICATOR,
    SUPERUSER,
    TENANT_ADMIN,
    Need,
    Resource,
    Scope,
    on_namespace,
    on_topic,
    tenant_operation,
)
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policies import AuthPolicies, Policies, TenantInfo
from magnetar.security.principal import NOBODY, Principal

ROLES = ("root", "admin", "writer", "reader", "of-topic", "packer", "link", "links", "stranger")
RULES = Rules(
    super_users=frozenset({"root"}),
    proxies=frozenset({"proxy", "root-proxy"}),
    replicators={"link": frozenset({"jfk"}), "links": frozenset({"*"})},
)
TENANT = TenantInfo(adminRoles=["admin", "proxy"])
ORDERS = TopicName.parse("persistent://shop/web/orders")
PARTITION = ORDERS.partition(3)
OTHER = TopicName.parse("persistent://shop/web/other")
POLICIES = Policies(
    auth_policies=AuthPolicies(
        namespace_auth={"writer": ["produce"], "reader": ["consume"], "packer": ["packages"], "team-*": ["consume"]},
        destination_auth={
            str(ORDERS): {"of-topic": ["produce", "consume"], "*-ops": ["produce"]},
            str(PARTITION): {"of-partition": ["consume"]},
        },
        subscription_auth_roles={"billing": ["reader"], "open": []},
    )
)
STATE = State(TENANT, POLICIES)
TOPIC = Resource.of_topic(ORDERS)
NAMESPACE = Resource.of_namespace(NamespaceName("shop", "web"))


def permitted(need: Need, resource: Resource, rules: Rules = RULES, state: State = STATE) -> set[str]:
    return {role for role in ROLES if refusal(need, resource, Principal(role, "token"), state, rules) is None}


EVERYBODY = set(ROLES)
ADMINS = {"root", "admin"}
READERS = {*ADMINS, "writer", "reader", "of-topic", "link", "links"}

TABLE = [
    (ANYONE, TOPIC, EVERYBODY),
    (OWN, TOPIC, EVERYBODY),
    (HANDLER, Resource(), EVERYBODY),
    (AUTHENTICATED, Resource(), EVERYBODY),
    (SUPERUSER, Resource(), {"root"}),
    (Need(Scope.SUPERUSER, is_for_links=True), Resource(), {"root", "link", "links"}),
    (TENANT_ADMIN, TOPIC, ADMINS),
    (tenant_operation("GET_TENANT"), Resource("shop"), ADMINS),
    (tenant_operation("LIST_NAMESPACES", is_for_links=True), Resource("shop"), {*ADMINS, "link", "links"}),
    (Need(Scope.NAMESPACE_POLICY, "WRITE", "TTL"), NAMESPACE, ADMINS),
    (Need(Scope.TOPIC_POLICY, "READ", "TTL"), TOPIC, ADMINS),
    (on_namespace("GET_TOPICS"), NAMESPACE, {*ADMINS, "writer", "reader"}),
    (on_namespace("CLEAR_BACKLOG"), NAMESPACE, {*ADMINS, "reader"}),
    (on_namespace("PACKAGES"), NAMESPACE, {*ADMINS, "packer"}),
    (on_namespace("FUNCTIONS"), NAMESPACE, ADMINS),
    (on_namespace("CREATE_TOPIC"), NAMESPACE, ADMINS),
    (on_topic("LOOKUP"), TOPIC, READERS - {"link", "links"}),
    (on_topic("GET_STATS", is_for_links=True), TOPIC, READERS),
    (on_topic("PRODUCE"), TOPIC, {*ADMINS, "writer", "of-topic"}),
    (on_topic("PRODUCE"), Resource.of_topic(PARTITION), {*ADMINS, "writer", "of-topic"}),
    (on_topic("PRODUCE"), Resource.of_topic(OTHER), {*ADMINS, "writer"}),
    (on_topic("CONSUME"), TOPIC, {*ADMINS, "reader", "of-topic"}),
    (on_topic("CONSUME"), Resource.of_topic(ORDERS, "open"), {*ADMINS, "reader", "of-topic"}),
    (on_topic("CONSUME"), Resource.of_topic(ORDERS, "billing"), {*ADMINS, "reader"}),
    (on_topic("SKIP"), Resource.of_topic(ORDERS, "billing"), {*ADMINS, "reader"}),
    (on_topic("UNLOAD"), TOPIC, ADMINS),
    (REPLICATOR, Resource(cluster="jfk"), {"root", "link", "links"}),
    (REPLICATOR, Resource(cluster="lga"), {"root", "links"}),
    (REPLICATOR, Resource(cluster=""), {"root", "links"}),
    (REPLICATOR, Resource(), {"root", "link", "links"}),
]


@pytest.mark.parametrize(("need", "resource", "expected"), TABLE)
def test_exactly_the_roles_of_the_table_are_permitted(need: Need, resource: Resource, expected: set[str]) -> None:
    assert permitted(need, resource) == expected


def test_a_client_without_a_role_may_do_only_what_anyone_may() -> None:
    for need, resource, expected in TABLE:
        is_refused = refusal(need, resource, NOBODY, STATE, RULES) is not None
        assert is_refused == (need.scope not in (Scope.ANYONE, Scope.OWN, Scope.HANDLER)), expected


def test_a_subscription_may_have_to_begin_with_the_role() -> None:
    state = State(TENANT, POLICIES.model_copy(update={"subscription_auth_mode": "Prefix"}))
    for name, expected in (("reader-a", {*ADMINS, "reader"}), ("of-topic-b", {*ADMINS, "of-topic"}), ("c", ADMINS)):
        assert permitted(on_topic("CONSUME"), Resource.of_topic(ORDERS, name), state=state) == expected
    refused = refusal(on_topic("CONSUME"), Resource.of_topic(ORDERS, "c"), Principal("reader", "token"), state, RULES)
    assert refused is not None
    assert refused.subscription_reason.startswith("Failed to create consumer - The subscription name needs to be prefi")
    assert permitted(on_topic("LOOKUP"), TOPIC, state=state) == READERS - {"link", "links"}


@pytest.mark.parametrize(("role", "is_permitted"), [("team-a", True), ("x-ops", True), ("ops", False), ("a", False)])
def test_wildcards_match_the_beginning_or_the_end_if_they_are_allowed(role: str, *, is_permitted: bool) -> None:
    need, principal = on_topic("LOOKUP"), Principal(role, "token")
    assert refusal(need, TOPIC, principal, STATE, RULES) is not None
    allowing = Rules(allows_wildcards=True)
    assert (refusal(need, TOPIC, principal, STATE, allowing) is None) == is_permitted


def test_a_proxy_and_the_role_behind_it_must_both_be_permitted() -> None:
    def answer(role: str, original: str, need: Need = TENANT_ADMIN) -> Refusal | None:
        return refusal(need, TOPIC, Principal(role, "token", original), STATE, RULES)

    assert answer("proxy", "admin") is None
    assert answer("root-proxy", "admin") is not None, "the proxy itself has no permission"
    assert answer("proxy", "stranger") is not None
    assert answer("admin", "stranger") is not None, "a role that is no proxy cannot act for another one, either"
    for original in ("", "root-proxy"):
        refused = answer("proxy", original)
        assert refused is not None
        assert refused.reason.startswith("Invalid combination of Original principal")
    refused = answer("proxy", "root", SUPERUSER)
    assert refused is not None
    assert refused.reason == "Proxy not authorized for super-user operation (proxy:proxy)"


def test_what_does_not_exist_is_refused() -> None:
    nothing = State()
    principal = Principal("reader", "token")
    refused = refusal(on_topic("CONSUME"), TOPIC, principal, nothing, RULES)
    assert refused is not None
    assert (refused.status, refused.reason) == (404, "Tenant does not exist")
    assert refusal(on_topic("CONSUME"), TOPIC, principal, State(TENANT), RULES) is not None
    assert refusal(on_topic("CONSUME"), TOPIC, Principal("root", "token"), nothing, RULES) is None


@pytest.mark.parametrize(
    ("need", "status", "reason"),
    [
        (SUPERUSER, 401, "This operation requires super-user access"),
        (TENANT_ADMIN, 401, "Don't have permission to administrate resources on this tenant"),
        (
            tenant_operation("GET_TENANT"),
            401,
            (
                "Unauthorized to validateTenantOperation for originalPrincipal [null] and clientAppId [stranger] about "
                "operation [GET_TENANT] on tenant [shop]"
            ),
        ),
        (
            on_namespace("GET_TOPICS"),
            403,
            "Unauthorized to validateNamespaceOperation for operation [GET_TOPICS] on namespace [shop/web]",
        ),
        (
            on_topic("GET_STATS"),
            401,
            f"Unauthorized to validateTopicOperation for operation [GET_STATS] on topic [{ORDERS}]",
        ),
        (
            Need(Scope.TOPIC_POLICY, "READ", "TTL"),
            403,
            f"Unauthorized to validateTopicPolicyOperation for operation [READ] on topic [{ORDERS}] on policy [TTL]",
        ),
        (
            Need(Scope.NAMESPACE_POLICY, "WRITE", "TTL"),
            403,
            (
                "Unauthorized to validateNamespacePolicyOperation for operation [WRITE] on namespace [shop/web] on "
                "policy [TTL]"
            ),
        ),
    ],
)
def test_refusals_are_those_of_pulsar(need: Need, status: int, reason: str) -> None:
    refused = refusal(need, TOPIC, Principal("stranger", "token"), STATE, RULES)
    assert refused is not None
    assert (refused.status, refused.reason) == (status, reason)
