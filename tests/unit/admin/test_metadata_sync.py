from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.models.metadata_sync import MetadataSyncStatus, RefusedEvent
from magnetar.base.errors import AdminError
from tests.unit.admin.fake_service import AppTransport, FakeAdminService, new_service

if TYPE_CHECKING:
    from collections.abc import Sequence


class Synchronizer:
    def __init__(self) -> None:
        self.snapshots = 0

    def status(self) -> MetadataSyncStatus:
        return MetadataSyncStatus(
            event_topic="persistent://pulsar/metadata/events",
            connected=False,
            failure="lost",
            unpublished_events=2,
            applied_events=3,
            refused_events=1,
            newest_event_age_seconds={"jfk": 1.5},
        )

    def refused(self) -> Sequence[RefusedEvent]:
        return [RefusedEvent(refused_at="2026-01-01T00:00:00.000Z", reason="not JSON", event="{")]

    async def snapshot(self) -> None:
        self.snapshots += 1


def client_of(service: FakeAdminService) -> AdminClient:
    return AdminClient(service.admin_url, transport=AppTransport(service))


def test_the_synchronizer_is_shown_and_takes_snapshots() -> None:
    service, synchronizer = new_service(), Synchronizer()
    service.metadata_sync = synchronizer
    with client_of(service) as client:
        assert client.metadata_sync.status() == {
            "eventTopic": "persistent://pulsar/metadata/events",
            "connected": False,
            "failure": "lost",
            "unpublishedEvents": 2,
            "appliedEvents": 3,
            "refusedEvents": 1,
            "newestEventAgeSeconds": {"jfk": 1.5},
        }
        (event,) = client.metadata_sync.refused()
        assert event == {"refusedAt": "2026-01-01T00:00:00.000Z", "reason": "not JSON", "event": "{"}
        client.metadata_sync.snapshot()
    assert synchronizer.snapshots == 1


def test_without_a_synchronizer_the_answer_names_the_setting() -> None:
    with client_of(new_service()) as client, pytest.raises(AdminError, match="set metadataSyncEventTopic") as refused:
        client.metadata_sync.status()
    assert refused.value.status == HTTPStatus.PRECONDITION_FAILED
