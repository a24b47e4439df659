"""Policies of namespaces and topics: recorded responses of Apache Pulsar 4.0.7 to the same requests, in order."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.api import build_app
from magnetar.base.names import TopicName
from magnetar.metadata.policy.values import BacklogQuota
from tests.unit.admin.fake_service import FLIGHTS, AppTransport, FakeTopic, new_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

N = "namespaces/nyc/n"
X = "persistent/nyc/n/x"
PAUSE = "dispatcherPauseOnAckStatePersistent"
HOLD = {"limitSize": 1000, "policy": "producer_request_hold"}
HOLD_SHOWN = {"limit": 1000, "limitSize": 1000, "limitTime": 0, "policy": "producer_request_hold"}
EVICT = {"limitTime": 100, "policy": "consumer_backlog_eviction"}
EVICT_SHOWN = {"limit": 0, "limitSize": 0, "limitTime": 100, "policy": "consumer_backlog_eviction"}
NO_QUOTA = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}
EXCEEDS = "Backlog Quota exceeds configured retention quota for {}. Please increase retention quota and retry"
NO_POLICY = "backlog quota failed because the data validation failed. the attribute policy cannot be null"
ONE_MB = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
DELAY = {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 1000}

CONVERSATION: list[tuple[str, str, object, int, object]] = [
    ("PUT", N, None, 204, None),
    ("GET", f"{N}/{PAUSE}", None, 200, False),
    ("POST", f"{N}/{PAUSE}", None, 204, None),
    ("GET", f"{N}/{PAUSE}", None, 200, True),
    ("GET", f"{X}/{PAUSE}", None, 200, False),
    ("GET", f"{X}/{PAUSE}?applied=true", None, 200, True),
    ("DELETE", f"{N}/{PAUSE}", None, 204, None),
    ("GET", f"{N}/{PAUSE}", None, 200, False),
    ("GET", f"{X}/schemaValidationEnforced", None, 200, False),
    ("POST", f"{N}/messageTTL", 0, 204, None),
    ("POST", f"{N}/messageTTL", 10, 204, None),
    ("POST", f"{N}/messageTTL", -1, 412, {"reason": "Invalid value for message TTL, message TTL must >= 0"}),
    ("GET", f"{N}/messageTTL", None, 200, 10),
    ("GET", f"{X}/messageTTL?applied=true", None, 200, 10),
    ("DELETE", f"{N}/messageTTL", None, 204, None),
    ("GET", f"{N}/messageTTL", None, 204, None),
    ("POST", f"{N}/deduplication", True, 204, None),
    ("GET", f"{N}/deduplication", None, 200, True),
    ("DELETE", f"{N}/deduplication", None, 204, None),
    ("GET", f"{N}/deduplication", None, 204, None),
    ("POST", f"{N}/deduplicationSnapshotInterval", 5, 204, None),
    (
        "POST",
        f"{N}/deduplicationSnapshotInterval",
        -1,
        412,
        {"reason": "interval must be greater than or equal to 0"},
    ),
    ("GET", f"{N}/deduplicationSnapshotInterval", None, 200, 5),
    ("POST", f"{N}/deduplicationSnapshotInterval", None, 204, None),
    ("GET", f"{N}/deduplicationSnapshotInterval", None, 204, None),
    ("POST", f"{N}/backlogQuota", HOLD, 204, None),
    ("POST", f"{N}/backlogQuota?backlogQuotaType=message_age", EVICT, 204, None),
    ("GET", f"{N}/backlogQuotaMap", None, 200, {"destination_storage": HOLD_SHOWN, "message_age": EVICT_SHOWN}),
    ("POST", f"{N}/backlogQuota", {"limitTime": 1}, 400, {"reason": f"Set namespace[nyc/n] {NO_POLICY}"}),
    ("POST", f"{N}/backlogQuota", {"policy": "nonsense"}, 400, {"reason": f"Set namespace[nyc/n] {NO_POLICY}"}),
    (
        "POST",
        f"{N}/backlogQuota?backlogQuotaType=nonsense",
        HOLD,
        404,
        {"reason": "backlogQuotaType=nonsense: expected destination_storage or message_age"},
    ),
    ("POST", f"{N}/retention", ONE_MB, 204, None),
    ("POST", f"{N}/backlogQuota", HOLD | {"limitSize": 10**8}, 412, {"reason": EXCEEDS.format("namespace")}),
    ("DELETE", f"{N}/backlogQuota", None, 204, None),
    ("GET", f"{N}/backlogQuotaMap", None, 200, {"message_age": EVICT_SHOWN}),
    ("DELETE", f"{N}/backlogQuota?backlogQuotaType=message_age", None, 204, None),
    ("GET", f"{N}/backlogQuotaMap", None, 200, {}),
    ("GET", f"{N}/delayedDelivery", None, 204, None),
    ("POST", f"{N}/delayedDelivery", DELAY, 204, None),
    ("GET", f"{N}/delayedDelivery", None, 200, DELAY),
    ("DELETE", f"{N}/delayedDelivery", None, 204, None),
    ("DELETE", f"{N}/retention", None, 204, None),
    ("GET", f"{X}/deduplicationEnabled", None, 204, None),
    ("GET", f"{X}/deduplicationEnabled?applied=true", None, 200, False),
    ("GET", f"{X}/messageTTL", None, 204, None),
    ("GET", f"{X}/messageTTL?applied=true", None, 200, 0),
    (
        "GET",
        f"{X}/retention?applied=true",
        None,
        200,
        {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
    ),
    (
        "GET",
        f"{X}/delayedDelivery?applied=true",
        None,
        200,
        {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 0},
    ),
    ("GET", f"{X}/backlogQuotaMap", None, 200, {}),
    (
        "GET",
        f"{X}/backlogQuotaMap?applied=true",
        None,
        200,
        {"destination_storage": NO_QUOTA, "message_age": NO_QUOTA},
    ),
    ("POST", f"{X}/messageTTL?messageTTL=5", None, 204, None),
    ("GET", f"{X}/messageTTL", None, 200, 5),
    ("POST", f"{X}/messageTTL", None, 204, None),
    ("GET", f"{X}/messageTTL", None, 204, None),
    ("POST", f"{X}/deduplicationEnabled", True, 204, None),
    ("GET", f"{X}/deduplicationEnabled?applied=true", None, 200, True),
    ("POST", f"{X}/deduplicationSnapshotInterval", 7, 204, None),
    ("GET", f"{X}/deduplicationSnapshotInterval", None, 200, 7),
    ("POST", f"{X}/retention", ONE_MB, 204, None),
    ("GET", f"{X}/retention?applied=true", None, 200, ONE_MB),
    ("POST", f"{X}/delayedDelivery", DELAY, 204, None),
    ("GET", f"{X}/delayedDelivery", None, 200, DELAY),
    ("POST", f"{X}/backlogQuota", HOLD, 204, None),
    ("POST", f"{X}/backlogQuota", HOLD | {"limitSize": 10**7}, 412, {"reason": EXCEEDS.format("topic")}),
    ("GET", f"{X}/backlogQuotaMap", None, 200, {"destination_storage": HOLD_SHOWN}),
    ("GET", f"{N}/replicatedSubscriptionSync", None, 204, None),
    ("POST", f"{N}/replicatedSubscriptionSync", "exact", 204, None),
    ("GET", f"{X}/replicatedSubscriptionSync", None, 204, None),
    ("POST", f"{X}/replicatedSubscriptionSync", "markers", 204, None),
    ("GET", f"{X}/replicatedSubscriptionSync", None, 200, "markers"),
    ("DELETE", f"{X}/replicatedSubscriptionSync", None, 204, None),
    ("GET", f"{X}/replicatedSubscriptionSync?applied=true", None, 200, "exact"),
    ("DELETE", f"{N}/replicatedSubscriptionSync", None, 204, None),
    ("POST", f"{N}/replicatedSubscriptionActiveCluster", "ewr", 204, None),
    ("POST", f"{X}/replicatedSubscriptionActiveCluster", "", 204, None),
    ("GET", f"{X}/replicatedSubscriptionActiveCluster?applied=true", None, 200, ""),
    ("DELETE", f"{X}/replicatedSubscriptionActiveCluster", None, 204, None),
    ("GET", f"{X}/replicatedSubscriptionActiveCluster?applied=true", None, 200, "ewr"),
    ("DELETE", f"{N}/replicatedSubscriptionActiveCluster", None, 204, None),
    ("POST", f"{X}/{PAUSE}", None, 204, None),
    ("GET", f"{X}/{PAUSE}", None, 200, True),
    *[
        ("DELETE", f"{X}/{policy}", None, 204, None)
        for policy in ("deduplicationEnabled", "messageTTL", "retention", "delayedDelivery", "backlogQuota", PAUSE)
    ],
    ("GET", f"{X}/backlogQuotaMap", None, 200, {}),
    ("GET", f"{X}/retention", None, 204, None),
    ("GET", f"{X}/{PAUSE}", None, 200, False),
]


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    service = new_service()
    service.topics.held[TopicName.parse("persistent://nyc/n/x")] = FakeTopic()
    with httpx.Client(transport=AppTransport(service), base_url=f"{service.admin_url}/admin/v2/") as client:
        yield client


def test_the_conversation_repeats(http: httpx.Client) -> None:
    for method, path, body, status, answer in CONVERSATION:
        response = http.request(method, path) if body is None else http.request(method, path, json=body)
        found = response.json() if response.content else None
        assert (method, path, response.status_code, found) == (method, path, status, answer)


REPLICATE = "replicateSubscriptionState"
ALLOWED = "replicatedSubscriptionsAllowed"
FREQUENCY = "replicatedSubscriptionsSnapshotFrequencyMillis"

PROPOSED: list[tuple[str, str, object, int, object]] = [
    ("GET", f"{N}/{REPLICATE}", None, 204, None),
    ("GET", f"{X}/{REPLICATE}?applied=true", None, 200, False),
    ("POST", f"{N}/{REPLICATE}", True, 204, None),
    ("GET", f"{N}/{REPLICATE}", None, 200, True),
    ("GET", f"{X}/{REPLICATE}", None, 204, None),
    ("GET", f"{X}/{REPLICATE}?applied=true", None, 200, True),
    ("POST", f"{X}/{REPLICATE}", False, 204, None),
    ("GET", f"{X}/{REPLICATE}?applied=true", None, 200, False),
    ("POST", f"{X}/{REPLICATE}", "null", 400, {"reason": "Input should be a valid boolean"}),
    ("DELETE", f"{X}/{REPLICATE}", None, 204, None),
    ("GET", f"{X}/{REPLICATE}?applied=true", None, 200, True),
    ("POST", f"{N}/{REPLICATE}", None, 204, None),
    ("GET", f"{N}/{REPLICATE}", None, 204, None),
    ("GET", f"{X}/{ALLOWED}?applied=true", None, 200, True),
    ("POST", f"{N}/{ALLOWED}", False, 204, None),
    ("GET", f"{X}/{ALLOWED}?applied=true", None, 200, False),
    ("DELETE", f"{N}/{ALLOWED}", None, 204, None),
    ("GET", f"{X}/{ALLOWED}?applied=true", None, 200, True),
    ("GET", f"{X}/maxAtRiskMessages?applied=true", None, 200, -1),
    ("POST", f"{N}/maxAtRiskMessages", 0, 204, None),
    ("GET", f"{X}/maxAtRiskMessages?applied=true", None, 200, 0),
    ("POST", f"{X}/maxAtRiskMessages", -2, 400, {"reason": "Input should be greater than or equal to -1"}),
    ("POST", f"{X}/maxAtRiskMessages", -1, 204, None),
    ("GET", f"{X}/maxAtRiskMessages?applied=true", None, 200, -1),
    ("POST", f"{N}/atRiskCopies", 0, 400, {"reason": "Input should be greater than or equal to 1"}),
    ("POST", f"{N}/atRiskCopies", 2, 204, None),
    ("GET", f"{X}/atRiskCopies?applied=true", None, 200, 2),
    ("DELETE", f"{N}/atRiskCopies", None, 204, None),
    ("GET", f"{X}/atRiskCopies?applied=true", None, 200, 1),
    ("GET", f"{X}/{FREQUENCY}?applied=true", None, 200, 1000),
    ("POST", f"{N}/{FREQUENCY}", 0, 400, {"reason": "Input should be greater than or equal to 1"}),
    ("POST", f"{N}/{FREQUENCY}", 5000, 204, None),
    ("GET", f"{X}/{FREQUENCY}?applied=true", None, 200, 5000),
    ("POST", f"{X}/{FREQUENCY}", 250, 204, None),
    ("GET", f"{X}/{FREQUENCY}?applied=true", None, 200, 250),
    ("DELETE", f"{X}/{FREQUENCY}", None, 204, None),
    ("DELETE", f"{N}/{FREQUENCY}", None, 204, None),
    ("GET", f"{N}/{FREQUENCY}", None, 204, None),
    (
        *("POST", f"{N}/custody", {"ewr": "ewr"}, 412),
        {"reason": "Invalid custody: the entries of 'ewr' cannot be in the custody of 'ewr'"},
    ),
    ("POST", f"{N}/custody", {"ewr": "jfk"}, 204, None),
    ("GET", f"{N}/custody", None, 200, {"ewr": "jfk"}),
    ("DELETE", f"{N}/custody", None, 204, None),
    ("GET", f"{N}/custody", None, 204, None),
]
"""PIP-398, which no release of Apache Pulsar has yet, and Magnetar's additions."""


def test_policies_proposed_for_pulsar(http: httpx.Client) -> None:
    http.put(N)
    for method, path, body, status, answer in PROPOSED:
        response = http.request(method, path) if body is None else http.request(method, path, json=body)
        found = response.json() if response.content else None
        assert (method, path, response.status_code, found) == (method, path, status, answer)


def test_a_namespace_may_be_created_with_its_policies(http: httpx.Client) -> None:
    wanted = {
        "message_ttl_in_seconds": 60,
        "deduplicationEnabled": True,
        "backlog_quota_map": {"destination_storage": HOLD_SHOWN},
        "dispatcherPauseOnAckStatePersistentEnabled": True,
        "replicate_subscription_state": True,
        "replicated_subscriptions_allowed": True,
    }
    assert http.put("namespaces/nyc/m", json=wanted).status_code == 204
    assert {name: http.get("namespaces/nyc/m").json()[name] for name in wanted} == wanted


def test_a_quota_that_was_set_while_the_body_of_another_one_arrived_is_kept() -> None:
    service = new_service()
    namespaces = service.resources.namespaces

    async def slow() -> AsyncIterator[bytes]:
        quotas = {"message_age": BacklogQuota(limitTime=9, policy="producer_exception")}
        namespaces.update(FLIGHTS, lambda old: old.model_copy(update={"backlog_quota_map": quotas}))
        yield b'{"limitSize": 7, "policy": "producer_exception"}'

    async def post() -> int:
        transport = httpx.ASGITransport(build_app(service, service.resources))
        async with httpx.AsyncClient(transport=transport, base_url="http://a/admin/v2/") as client:
            return (await client.post("namespaces/nyc/flights/backlogQuota", content=slow())).status_code

    assert asyncio.run(post()) == HTTPStatus.NO_CONTENT
    policies = namespaces.get(FLIGHTS)
    assert policies is not None
    assert policies.backlog_quota_map.keys() == {"message_age", "destination_storage"}
