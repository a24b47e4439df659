"""Names that a switch uses in the clusters. Pure."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from magnetar.migration.machine.records import Begun
    from magnetar.migration.scope import Scope

_FENCE_NAME_MAX: Final = 200


def fence_name(begun: Begun) -> str:
    """Return the name of a migration in fences, which is the same in all processes that run it."""
    name = f"{begun.scope} from {begun.source} to {begun.target}"
    if len(name) <= _FENCE_NAME_MAX:
        return name
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{name[: _FENCE_NAME_MAX - len(digest) - 1]} {digest}"


def route_scopes(scope: Scope) -> list[str]:
    """Return the tenant, or its parts, that get one route each at the end of a switch."""
    return scope.parts or [scope.tenant]
