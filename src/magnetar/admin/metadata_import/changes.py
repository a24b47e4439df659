"""The changes that an import makes, and the remarks about what it does not change. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.admin.client import AdminClient

    Send = Callable[[AdminClient], None]
    """Makes a change in the target. It can be repeated."""


@dataclass(frozen=True, slots=True)
class Change:
    """A field of a resource that the import creates, changes or removes."""

    kind: str
    """A value of ResourceType, ``Clusters`` or ``Schemas``."""
    name: str
    field: str
    """A JSON pointer (RFC 6901); empty: the resource itself. ``/N``: version N of a schema."""
    before: Any
    """The value in the target; None: not set."""
    after: Any
    """The value in the source; None: not set."""
    send: Send = dataclasses.field(compare=False, repr=False)
    has_effect: bool = True
    """Whether the value has an effect in Magnetar, or is only stored."""


class Reason(Enum):
    """Why a difference is not imported."""

    NO_COUNTERPART = "no counterpart"
    """Magnetar does not have it."""
    OF_EACH_CLUSTER = "belongs to each cluster"
    """It is copied when the resource is created, and belongs to each cluster afterwards."""
    ONLY_IN_TARGET = "only in the target"
    """An import deletes nothing."""
    CONFLICT = "conflict"
    """The target has something else that cannot be changed."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A difference that is not imported."""

    reason: Reason
    kind: str
    """As in a change; for what Magnetar does not have, Pulsar's word for it."""
    name: str
    field: str
    """A JSON pointer; empty: the resource itself."""
    detail: str = ""


@dataclass(slots=True)
class Plan:
    """The difference between two clusters."""

    changes: list[Change] = dataclasses.field(default_factory=list)
    """In the order in which they must be made."""
    remarks: list[Remark] = dataclasses.field(default_factory=list)
