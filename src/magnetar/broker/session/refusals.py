"""Conversion of errors to answers of requests: one rule for all commands."""

from __future__ import annotations

from typing import Final, TypeAlias

from magnetar.base.errors import LinkHeldError, MetadataError, RequestError, ServerError, StorageError

REFUSED: Final = (RequestError, StorageError, MetadataError)
"""Errors that refuse a request and leave the connection open. Protocol errors close it; all others are bugs."""


Refused: TypeAlias = RequestError | StorageError | MetadataError
"""An error of ``REFUSED``."""


def as_request_error(error: Refused) -> RequestError:
    """Return the refusal for an error of ``REFUSED``, with Pulsar's code for it.

    The refusal is a new error without a traceback. The traceback of ``error`` refers to the command, which may be
    large, and to the refusal itself.
    """
    if isinstance(error, LinkHeldError):
        return LinkHeldError(str(error), error.pipeline)
    if isinstance(error, RequestError):
        return RequestError(error.code, str(error), error.limit)
    code = ServerError.PersistenceError if isinstance(error, StorageError) else ServerError.MetadataError
    return RequestError(code, str(error))


def internal_error() -> RequestError:
    """Return the refusal for a request that failed because of a bug; the log has the details."""
    return RequestError(ServerError.UnknownError, "internal error, see the broker's log")
