"""How an error becomes the answer to a request: one rule for every command."""

from __future__ import annotations

from typing import Final, TypeAlias

from magnetar.base.errors import LinkHeldError, MetadataError, RequestError, ServerError, StorageError

REFUSED: Final = (RequestError, StorageError, MetadataError)
"""Errors that refuse a request and leave the connection open. Protocol errors close it; all others are bugs."""


Refused: TypeAlias = RequestError | StorageError | MetadataError
"""One of ``REFUSED``."""


def as_request_error(error: Refused) -> RequestError:
    """Return the refusal for one of ``REFUSED``, with Pulsar's code for it.

    It is a new error without a traceback: that of ``error`` refers to frames that hold the command, which may be large,
    and to the variable that its handler keeps the refusal in.
    """
    if isinstance(error, LinkHeldError):
        return LinkHeldError(str(error), error.pipeline)
    if isinstance(error, RequestError):
        return RequestError(error.code, str(error), error.limit)
    code = ServerError.PersistenceError if isinstance(error, StorageError) else ServerError.MetadataError
    return RequestError(code, str(error))


def internal_error() -> RequestError:
    """Return the refusal for a request that met a bug; the log has the details."""
    return RequestError(ServerError.UnknownError, "internal error, see the broker's log")
