"""The result of authentication: the role that acts on a connection or in a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated role; see NOBODY for the one of brokers without authentication."""

    role: str
    """Role that the peer has proved. For a connection through a proxy, the role of the proxy."""
    method: str
    """Method of the proof: ``token``, ``basic`` or ``tls``; ``none`` for ``anonymousUserRole``."""
    original: str = ""
    """Role for which a proxy acts (``original_principal``); empty without a proxy."""
    expires_at: float | None = None
    """Time at which the proof expires, in seconds since the epoch; None: never."""

    @property
    def acting_role(self) -> str:
        """The role whose name belongs in logs: the original one behind a proxy."""
        return self.original or self.role

    @property
    def is_authenticated(self) -> bool:
        """Whether there is a role; otherwise the broker does not authenticate."""
        return bool(self.role)

    def has_expired(self, now: float) -> bool:
        """Return whether the proof is no longer valid at ``now``, in seconds since the epoch."""
        return self.expires_at is not None and self.expires_at <= now


NOBODY = Principal("", "none")
"""The principal of every client of a broker with ``authenticationEnabled=false``."""
