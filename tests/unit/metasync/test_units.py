from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo, TopicPolicies
from magnetar.metadata.routes.document import StoredRoute
from magnetar.metasync.units import _DEPTHS, ResourceType, document_of, units_of

if TYPE_CHECKING:
    from magnetar.metadata.policy.document import Document

MODELS: dict[ResourceType, type[Document]] = {
    ResourceType.TENANTS: TenantInfo,
    ResourceType.NAMESPACES: Policies,
    ResourceType.TOPICS: PartitionedTopicMetadata,
    ResourceType.TOPIC_POLICIES: TopicPolicies,
    ResourceType.ROUTES: StoredRoute,
}

POLICIES = {
    "auth_policies": {
        "namespace_auth": {"alice": ["produce"], "b/o~b": ["consume"]},
        "destination_auth": {"persistent://a/b/c": {"alice": ["consume"]}},
        "subscription_auth_roles": {"sub": ["alice"]},
    },
    "replication_clusters": ["ewr", "jfk"],
    "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
    "backlog_quota_map": {"destination_storage": {"limitSize": 1}, "message_age": {"limitTime": 2}},
    "message_ttl_in_seconds": 5,
    "of_a_later_version": {"a": {"b": 1}},
}


def test_units_are_fields_roles_and_keys() -> None:
    assert units_of(ResourceType.NAMESPACES, POLICIES) == {
        "/auth_policies/namespace_auth/alice": ["produce"],
        "/auth_policies/namespace_auth/b~1o~0b": ["consume"],
        "/auth_policies/destination_auth/persistent:~1~1a~1b~1c/alice": ["consume"],
        "/auth_policies/subscription_auth_roles/sub": ["alice"],
        "/replication_clusters": ["ewr", "jfk"],
        "/bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        "/backlog_quota_map/destination_storage": {"limitSize": 1},
        "/backlog_quota_map/message_age": {"limitTime": 2},
        "/message_ttl_in_seconds": 5,
        "/of_a_later_version": {"a": {"b": 1}},
    }
    assert document_of(ResourceType.NAMESPACES, units_of(ResourceType.NAMESPACES, POLICIES)) == POLICIES


@given(st.dictionaries(st.text(), st.integers()))
def test_any_key_survives(properties: dict[str, int]) -> None:
    units = units_of(ResourceType.TOPICS, {"partitions": 1, "properties": properties})
    assert document_of(ResourceType.TOPICS, units).get("properties", {}) == properties


@pytest.mark.parametrize("kind", ResourceType)
def test_every_divided_field_exists_and_is_an_object(kind: ResourceType) -> None:
    for path in _DEPTHS[kind]:
        field, _, inner = path.partition("/")
        annotation = str(MODELS[kind].model_fields[field].annotation)
        assert "AuthPolicies" in annotation if inner else "dict[" in annotation


@pytest.mark.parametrize("kind", ResourceType)
def test_a_document_without_values_of_its_own_survives(kind: ResourceType) -> None:
    model = MODELS[kind]
    given = {ResourceType.TOPICS: {"partitions": 3}, ResourceType.ROUTES: {"route": {"epoch": 1}}}
    document = model.model_validate(given.get(kind, {})).to_json()
    again = model.model_validate(document_of(kind, units_of(kind, document)))
    assert again.to_json() == document
