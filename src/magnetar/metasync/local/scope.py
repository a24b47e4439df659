"""What a request says about its changes beside the new document: their scope, and the units that it names."""

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


_named: ContextVar[tuple[str, ...]] = ContextVar("units that a change of metadata names", default=())


@contextmanager
def naming(*units: str) -> Iterator[None]:
    """Name the units that changes in the block are about.

    A change that repeats the value here is one as well: it makes a local value that of all clusters, or the value of
    all clusters a local one.
    """
    token = _named.set(units)
    try:
        yield
    finally:
        _named.reset(token)


def named_units() -> tuple[str, ...]:
    """Return the units that a change made now names; none if it does not tell."""
    return _named.get()


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
