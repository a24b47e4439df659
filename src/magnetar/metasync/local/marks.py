"""What one cluster has for itself, although its rules do not say so. Pure.

A mark says that a unit of a document, or the whole document, may differ from the common state, which the record has.
Edits of other clusters go to the record only.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple

WHOLE = ""
"""The pointer to a whole document (RFC 6901)."""


class Reason(Enum):
    """Why something is local."""

    EDIT = "edit"
    """An operator asked for a local change."""
    DROPPED = "dropped"
    """The tenant does not allow the cluster, so the cluster does not hold the resource."""


class Mark(NamedTuple):
    """A mark of a unit, or of a whole document."""

    since_ms: int
    """Milliseconds since the epoch."""
    reason: Reason


Marks = dict[str, Mark]
"""By unit or WHOLE."""


def encoded(marks: Marks) -> bytes:
    """Return the stored form of the marks of a resource."""
    return json.dumps({unit: [mark.since_ms, mark.reason.value] for unit, mark in sorted(marks.items())}).encode()


def decoded(data: bytes) -> Marks:
    """Parse the result of ``encoded``."""
    return {unit: Mark(since_ms, Reason(reason)) for unit, (since_ms, reason) in json.loads(data).items()}
