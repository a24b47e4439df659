"""The principal of a REST request. The web server sets it before the request reaches a handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.security.principal import NOBODY, Principal

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

_KEY: Final = "magnetar.principal"
"""Key of the principal in the scope of a request."""

_DENIED: Final = "magnetar.denied"
"""Key in the state of a request, which all copies of its scope share."""


def principal_of(scope: MutableMapping[str, Any]) -> Principal:
    """Return the principal of a request by its scope; NOBODY if the broker does not authenticate."""
    found: Principal = scope.get(_KEY, NOBODY)
    return found


def is_denied(scope: MutableMapping[str, Any]) -> bool:
    """Return whether the request was refused because its role has no permission."""
    return bool(scope.get("state", {}).get(_DENIED))


def note_denial(scope: MutableMapping[str, Any]) -> None:
    """Note that the request was refused because its role has no permission."""
    scope.setdefault("state", {})[_DENIED] = True


def set_principal(scope: MutableMapping[str, Any], principal: Principal) -> None:
    """Set the principal of a request."""
    scope[_KEY] = principal
