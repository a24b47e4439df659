from __future__ import annotations

from http import HTTPStatus

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, new_service


def client_of(service: FakeAdminService) -> AdminClient:
    return AdminClient(service.admin_url, transport=AppTransport(service))


def test_the_synchronizer_is_shown_and_takes_snapshots() -> None:
    service, synchronizer = new_service(), FakeSynchronizer()
    service.metadata_sync = synchronizer
    with client_of(service) as client:
        assert client.metadata_sync.status() == {
            "eventTopic": "persistent://pulsar/metadata/events",
            "connected": False,
            "failure": "lost",
            "unpublishedEvents": 2,
            "appliedEvents": 3,
            "refusedEvents": 1,
            "conflicts": 4,
            "newestEventAgeSeconds": {"B": 1.5, "C": None},
        }
        (event,) = client.metadata_sync.refused()
        assert event == {"refusedAt": "2026-01-01T00:00:00.000Z", "reason": "not JSON", "event": "{"}
        client.metadata_sync.snapshot()
    assert synchronizer.snapshots == 1


def test_without_a_synchronizer_the_answer_names_the_setting() -> None:
    with client_of(new_service()) as client, pytest.raises(AdminError, match="set metadataSyncEventTopic") as refused:
        client.metadata_sync.status()
    assert refused.value.status == HTTPStatus.PRECONDITION_FAILED
