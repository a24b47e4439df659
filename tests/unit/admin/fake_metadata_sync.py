"""A fake metadata synchronizer behind the admin API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.models.metadata_sync import LocalValue, MetadataSyncStatus, RefusedEvent, UnknownField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.metasync.places import Resource
    from magnetar.metasync.timestamps import Timestamp


class FakeSynchronizer:
    def __init__(self) -> None:
        self.snapshots = 0
        self.last_edits: dict[Resource, Timestamp] = {}
        self.removed: list[tuple[str, str]] = []

    def status(self) -> MetadataSyncStatus:
        return MetadataSyncStatus(
            event_topic="persistent://pulsar/metadata/events",
            connected=False,
            failure="lost",
            unpublished_events=2,
            applied_events=3,
            local_values=1,
            refused_events=1,
            conflicts=4,
            stranded_namespaces=["acme/orders"],
            newest_event_age_seconds={"B": 1.5, "C": None},
        )

    def last_edit(self, resource: Resource) -> Timestamp | None:
        return self.last_edits.get(resource)

    def local(self) -> Sequence[LocalValue]:
        return [
            LocalValue(
                resource_type="Namespaces",
                resource_name="nyc/flights",
                field="message_ttl_in_seconds",
                since="2026-01-01T00:00:00.000Z",
                reason="edit",
                here=5,
                common=None,
            )
        ]

    async def unknown(self) -> Sequence[UnknownField]:
        return [
            UnknownField(
                resource_type="Namespaces",
                resource_name="nyc/flights",
                field="of_tomorrow",
                value={"a": 1},
                set_by="B",
                set_at="2026-01-01T00:00:00.000Z",
            )
        ]

    async def remove_local(self, resource: str, field: str) -> None:
        self.removed.append((resource, field))

    def refused(self) -> Sequence[RefusedEvent]:
        return [RefusedEvent(refused_at="2026-01-01T00:00:00.000Z", reason="not JSON", event="{")]

    async def snapshot(self) -> None:
        self.snapshots += 1
