"""A fake metadata synchronizer behind the admin API."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.models.metadata_sync import (
    EditedField,
    HistoryEdit,
    LocalValue,
    MetadataSyncStatus,
    PreviewedChange,
    RefusedEvent,
    UndoneEdit,
    UnknownField,
)
from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from magnetar.metasync.places import Resource
    from magnetar.metasync.timestamps import Timestamp


class FakeSynchronizer:
    namespace = NamespaceName("pulsar", "metadata")

    def __init__(self) -> None:
        self.snapshots = 0
        self.last_edits: dict[Resource, Timestamp] = {}
        self.removed: list[tuple[str, str]] = []

    def status(self) -> Generator[None, None, MetadataSyncStatus]:
        yield
        return MetadataSyncStatus(
            event_topic="persistent://pulsar/metadata/events",
            connected=False,
            failure="lost",
            unpublished_events=2,
            applied_events=3,
            local_values=1,
            refused_events=1,
            conflicts=4,
            stranded_topics=6,
            stranded_namespaces=["acme/orders"],
            newest_event_age_seconds={"B": 1.5, "C": None},
        )

    def last_edit(self, resource: Resource) -> Timestamp | None:
        return self.last_edits.get(resource)

    async def local(self) -> Sequence[LocalValue]:
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

    def events(self) -> Generator[None, None, list[bytes]]:
        yield
        return [json.dumps({"resourceType": "Tenants", "resourceName": name}).encode() for name in ("nyc", "sfo", "x")]

    def preview(self, event: Mapping[str, Any]) -> Sequence[PreviewedChange]:
        if event["resourceName"] == "x":
            raise AdminError(HTTPStatus.BAD_REQUEST, "the event would be refused: not JSON")
        if event["resourceName"] == "nyc":
            return []
        here = {"resource_type": event["resourceType"], "resource": event["resourceName"]}
        return [PreviewedChange(**here, field="adminRoles", here=None, after=["r"])]

    def history(self, name: str) -> Generator[None, None, Sequence[HistoryEdit]]:
        yield
        if name != "nyc/flights":
            raise AdminError(HTTPStatus.NOT_FOUND, f"no edit of {name} is known")
        fields = [
            EditedField(field="message_ttl_in_seconds", before=None, after=60, state="lost", lost_to="1006.0.B"),
            EditedField(field="properties/team", before="x", after=None, state="current", lost_to=None),
        ]
        return [
            HistoryEdit(
                edit=f"{1_005 + index}.0.A",
                resource_type="Namespaces",
                change="Modified" if shown else "Created",
                cluster="A",
                edited_at="1970-01-01T00:00:01.005Z",
                arrived_at="1970-01-01T00:00:01.005Z",
                is_complete=True,
                is_local=not shown,
                fields=shown,
            )
            for index, shown in enumerate(([], fields))
        ]

    async def undo(self, name: str, edit: str | None, *, force: bool) -> UndoneEdit:
        if not force:
            raise AdminError(HTTPStatus.CONFLICT, "later edits changed the same fields: properties/team by 1007.0.B")
        restored = {"message_ttl_in_seconds": None, "properties/team": "x"}
        return UndoneEdit(edit=edit or "1006.0.A", resource_type="Namespaces", resource=name, restored=restored)

    async def snapshot(self) -> None:
        self.snapshots += 1
