"""The newest edit of a resource, as two fields of its document, while the metadata synchronizer is on (PIP-136)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.metasync.places import Resource

if TYPE_CHECKING:
    from magnetar.admin.exchange import Context
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metadata.policy.document import Document
    from magnetar.metasync.units import ResourceType

LAST_UPDATED_BY = "lastUpdatedBy"
"""Name of the cluster of the newest edit."""

LAST_UPDATED_TIME = "lastUpdatedTime"
"""Time of the newest edit there, in milliseconds since the epoch."""


def with_last_edit(
    context: Context, kind: ResourceType, name: str | NamespaceName | TopicName, document: dict[str, Any]
) -> dict[str, Any]:
    """Return a document with its newest edit; as it is if the synchronizer is off, or does not record the resource."""
    synchronizer = context.service.metadata_sync
    edit = None if synchronizer is None else synchronizer.last_edit(Resource(kind, str(name)))
    if edit is None:
        return document
    return {**document, LAST_UPDATED_BY: edit.cluster, LAST_UPDATED_TIME: edit.time_ms}


def remove_last_edit(document: Document) -> None:
    """Remove the fields from a document that a client sends back."""
    for name in (LAST_UPDATED_BY, LAST_UPDATED_TIME):
        (document.model_extra or {}).pop(name, None)
