"""The proof that a client presents, and the interface of the providers that check it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magnetar.security.principal import Principal


class Certificate(Protocol):
    """A certificate of a client, which the TLS handshake has verified."""

    @property
    def common_name(self) -> str:
        """Common name of the subject; empty if there is none."""
        ...

    @property
    def expires_at(self) -> float:
        """Time at which it expires, in seconds since the epoch."""
        ...


@dataclass(frozen=True, slots=True)
class Proof:
    """Data of one authentication method."""

    method: str
    """``auth_method_name``."""
    data: bytes = field(default=b"", repr=False)
    """``auth_data``, or the credentials of the header Authorization."""
    certificate: Certificate | None = field(default=None, repr=False)
    """Verified certificate of the connection; None without one."""


class Provider(Protocol):
    """Checks the proofs of one method."""

    @property
    def method(self) -> str:
        """``auth_method_name`` of the proofs."""
        ...

    async def authenticate(self, proof: Proof, now: float) -> Principal:
        """Return the role that ``proof`` proves at ``now``, in seconds since the epoch.

        Raises AuthenticationFailedError.
        """
        ...

    def close(self) -> None:
        """Release threads and connections."""
        ...
