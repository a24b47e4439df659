"""The fields of documents that this version does not know: a cluster with a later one has set them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.metasync.documents import unknown_fields
from magnetar.metasync.places import SYNCHRONIZED, resource_at

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.metasync.local.holdings import Holdings
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Edit, Record

UNKNOWN_MAX = 10_000
"""Maximum number of fields that are returned."""


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that is kept without an effect."""

    resource: Resource
    pointer: str
    value: Any
    edit: Edit | None
    """The newest edit of the unit that has the field; None if it is not recorded."""


def find_unknown(holdings: Holdings) -> Generator[None, None, list[UnknownField]]:
    """Return the unknown fields of all documents, at most UNKNOWN_MAX, in steps of one document."""
    store, found = holdings.store, list[UnknownField]()
    for path in [path for root in SYNCHRONIZED for path, _ in store.below(root)]:
        resource, stored = resource_at(path), store.get(path)
        if resource is not None and stored is not None:
            record = holdings.record(resource)
            for pointer, value in unknown_fields(resource.kind, json.loads(stored.value)).items():
                found.append(UnknownField(resource, pointer, value, _edit_of(record, pointer)))
        if len(found) >= UNKNOWN_MAX:
            break
        yield
    return found[:UNKNOWN_MAX]


def _edit_of(record: Record, pointer: str) -> Edit | None:
    for unit, edit in record.edits.items():
        if pointer == unit or pointer.startswith(f"{unit}/"):
            return edit
    return None
