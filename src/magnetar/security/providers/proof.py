"""The proof that a client presents, and the interface of the providers that check it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magnetar.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Proof:
    """Data of one authentication method."""

    method: str
    """``auth_method_name``."""
    data: bytes = field(default=b"", repr=False)
    """``auth_data``, or the credentials of the header Authorization."""
    certificate: bytes | None = field(default=None, repr=False)
    """Certificate of the client in DER, which the TLS handshake has verified; None without one."""


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
