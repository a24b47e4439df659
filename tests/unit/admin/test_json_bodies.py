"""JSON in requests is read as Pulsar's brokers read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import TypeAdapter, ValidationError

from magnetar.admin.json_bodies import validated
from magnetar.metadata.policies import Policies
from magnetar.metadata.policy.values import BacklogQuota, RetentionPolicies
from tests.unit.admin.fake_service import AppTransport, new_service

if TYPE_CHECKING:
    from collections.abc import Iterator

RETENTION, QUOTA = TypeAdapter(RetentionPolicies), TypeAdapter(BacklogQuota)


def test_a_number_may_be_in_a_string() -> None:
    quota = validated(QUOTA, b'{"limit": "10240", "policy": "producer_request_hold"}')
    assert (quota.limitSize, quota.policy) == (10240, "producer_request_hold")
    read = validated(RETENTION, b'{"retentionTimeInMinutes": "-1", "retentionSizeInMB": 7}')
    assert read == RetentionPolicies(retentionTimeInMinutes=-1, retentionSizeInMB=7)
    assert validated(TypeAdapter(bool), b'"true"') is True


def test_null_is_an_absent_member() -> None:
    assert validated(RETENTION, b'{"retentionTimeInMinutes": null, "retentionSizeInMB": 7}').retentionSizeInMB == 7
    policies = validated(TypeAdapter(Policies), b'{"replication_clusters": null, "properties": null}')
    assert policies == Policies()


@pytest.mark.parametrize(
    "content",
    [
        b'{"retentionTimeInMinutes": "1 m"}',
        b'{"retentionTimeInMinutes": ""}',
        b'{"retentionTimeInMinutes": true}',
        b'{"retentionTimeInMinutes": 1.5}',
        b'{"retentionTimeInMinutes": "99999999999"}',
        b'{"retentionTimeInMinutes": "1", "retentionSizeInMB": []}',
        b"null",
        b'["1"]',
    ],
)
def test_other_values_of_another_type_are_invalid(content: bytes) -> None:
    with pytest.raises(ValidationError):
        validated(RETENTION, content)


@pytest.mark.parametrize("content", [b'{"policy": null}', b'{"limit": "1", "policy": null}'])
def test_a_required_member_may_not_be_null(content: bytes) -> None:
    with pytest.raises(ValidationError):
        validated(QUOTA, content)


def test_a_list_may_not_contain_null() -> None:
    with pytest.raises(ValidationError):
        validated(TypeAdapter(list[str]), b'["A", null]')


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(transport=AppTransport(new_service()), base_url="http://broker/admin/v2/") as client:
        yield client


def test_the_go_client_uploads_a_schema_without_properties(http: httpx.Client) -> None:
    payload = {"type": "STRING", "schema": "", "properties": None}
    assert http.post("schemas/nyc/flights/obs/compatibility", json=payload).status_code == 202
