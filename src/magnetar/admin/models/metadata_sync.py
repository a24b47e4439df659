"""The state of the metadata synchronizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from magnetar.admin.models.model import Model


@dataclass(slots=True, kw_only=True)
class MetadataSyncStatus(Model):
    """The state of the metadata synchronizer of this cluster."""

    event_topic: str
    connected: bool
    failure: str | None
    """Reason why it is not connected; None while it is, or if it never tried."""
    unpublished_events: int
    """Changes made here that are not in the event topic yet."""
    applied_events: int
    """Events with news since the start of the broker, including those of this cluster that it had lost."""
    local_values: int
    """Fields, and whole resources, that are local to this cluster although its rules do not say so."""
    refused_events: int
    """Events that could not be applied since the start of the broker."""
    conflicts: int
    """Edits since the start of the broker that lost against a concurrent edit of the same field or a deletion."""
    stranded_topics: int
    """Topics here whose namespace does not exist: another cluster deleted it. Their messages are kept."""
    stranded_namespaces: list[str]
    """Namespaces whose tenants do not allow this cluster, and which stay because they have topics here."""
    newest_event_age_seconds: dict[str, float | None]
    """By registered cluster, the seconds since its newest event that arrived here; None if none ever arrived.

    It grows while the event topic is not connected, and survives a restart with an error of at most 10 seconds. The
    time of an event is that of the clock of its cluster.
    """


@dataclass(slots=True, kw_only=True)
class RefusedEvent(Model):
    """An event that could not be applied."""

    refused_at: str
    reason: str
    event: str
    """Its beginning, as text."""


@dataclass(slots=True, kw_only=True)
class StrandedTopic(Model):
    """A topic whose namespace does not exist. Clients cannot use it, and its messages are kept."""

    storage_size: int
    """Bytes of its messages."""
    subscriptions: list[str]


@dataclass(slots=True, kw_only=True)
class LocalValue(Model):
    """A field, or a whole resource, that is local to this cluster although its rules do not say so."""

    resource_type: str
    resource_name: str
    field: str
    """Its name, with a key behind a slash; empty: the resource as a whole."""
    since: str
    reason: str
    """``edit``: a local edit; ``dropped``: the tenant does not allow this cluster."""
    here: Any | None
    """The value in this cluster, absent if it is not set; without a field, whether the resource exists here."""
    common: Any | None
    """The value in the other clusters."""


@dataclass(slots=True, kw_only=True)
class UnknownField(Model):
    """A field of a later version, which is kept and synchronized without an effect here."""

    resource_type: str
    resource_name: str
    field: str
    """Its name, behind the names of the fields that it is in, separated by slashes."""
    value: Any | None
    set_by: str | None
    """The cluster that set it; absent if it is not recorded."""
    set_at: str | None


@dataclass(slots=True, kw_only=True)
class PreviewedChange(Model):
    """A change that an event would make in this cluster."""

    resource_type: str
    resource: str
    field: str
    """Its name, with a key behind a slash; empty: whether the resource exists."""
    here: Any | None
    """The value now; absent if it is not set."""
    after: Any | None
    """The value after the event; absent if it would not be set."""


@dataclass(slots=True, kw_only=True)
class EditedField(Model):
    """The change of one field by an edit."""

    field: str
    """Name; keys of a divided field follow after slashes, as in a JSON pointer."""
    before: Any | None
    """Value that was known in this cluster; None if the field was not set."""
    after: Any | None
    """Value that the edit gave; None if it removed the field."""
    state: Literal["current", "replaced", "lost"]
    """Whether the edit counts, a later one replaced it, or a concurrent one counts instead."""
    lost_to: str | None
    """The concurrent edit or deletion that counts."""


@dataclass(slots=True, kw_only=True)
class HistoryEdit(Model):
    """An edit of a resource."""

    edit: str
    """Names the edit in all clusters: time, counter and cluster."""
    resource_type: str
    change: Literal["Created", "Modified", "Deleted"]
    cluster: str
    """The cluster in which it was made."""
    edited_at: str
    arrived_at: str
    """Time of its arrival in this cluster."""
    is_complete: bool
    """Whether its values were kept; those of very large edits are not."""
    is_local: bool
    """Whether it is for this cluster only, as a change with ``--local``."""
    fields: list[EditedField]


@dataclass(slots=True, kw_only=True)
class UndoneEdit(Model):
    """An edit that was undone by a new one."""

    edit: str
    resource_type: str
    resource: str
    restored: dict[str, Any]
    """The former values by field; None: the field is not set."""
