"""The scope of the changes that a request makes: all clusters, or this one only."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


SCOPE = "Magnetar-Scope"
"""Header of a request: the clusters that its changes are for; absent: all of them."""

LOCAL = "local"
"""The value of SCOPE for this cluster only."""


@dataclass(slots=True)
class _Scope:
    is_open: bool = True


_current: ContextVar[_Scope | None] = ContextVar("scope of changes of metadata", default=None)


@contextmanager
def local_changes() -> Iterator[None]:
    """Keep changes of synchronized metadata that are made in the block in this cluster.

    This includes changes of tasks that are started in the block, until it ends.
    """
    scope = _Scope()
    token = _current.set(scope)
    try:
        yield
    finally:
        scope.is_open = False
        _current.reset(token)


def is_local() -> bool:
    """Return whether a change made now is for this cluster only."""
    scope = _current.get()
    return scope is not None and scope.is_open
