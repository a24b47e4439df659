"""All errors; the branches of the tree tell which side is at fault."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from http import HTTPStatus

    from magnetar.base.limits import Limit
    from magnetar.base.position import Position


class ServerError(IntEnum):
    """Pulsar's error codes on the wire (PulsarApi.proto, ServerError)."""

    UnknownError = 0
    MetadataError = 1
    PersistenceError = 2
    AuthenticationError = 3
    AuthorizationError = 4
    ConsumerBusy = 5
    ServiceNotReady = 6
    ProducerBlockedQuotaExceededError = 7
    ProducerBlockedQuotaExceededException = 8
    ChecksumError = 9
    UnsupportedVersionError = 10
    TopicNotFound = 11
    SubscriptionNotFound = 12
    ConsumerNotFound = 13
    TooManyRequests = 14
    TopicTerminatedError = 15
    ProducerBusy = 16
    InvalidTopicName = 17
    IncompatibleSchema = 18
    ConsumerAssignError = 19
    TransactionCoordinatorNotFound = 20
    InvalidTxnStatus = 21
    NotAllowedError = 22
    TransactionConflict = 23
    TransactionNotFound = 24
    ProducerFenced = 25


class MagnetarError(Exception):
    """Root of all errors that Magnetar raises."""

    limit: Limit | None = None
    """The exceeded limit, counted where the error is answered; None for other errors."""


_Error = TypeVar("_Error", bound=MagnetarError)


def without_frames(error: _Error) -> _Error:
    """Return an error that will be kept, without its traceback and causes.

    Their frames would keep the rejected data in memory, and so would the reference cycle of an error in a local
    variable of its own frames.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class LocalProtocolError(MagnetarError):
    """This side violated the protocol: a bug in Magnetar."""


class RemoteProtocolError(MagnetarError):
    """The peer violated the protocol; the connection must be closed."""

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        """Keep the exceeded limit, or None."""
        super().__init__(message)
        self.limit = limit


class ChecksumMismatchError(RemoteProtocolError):
    """An entry does not match its checksum."""


class PeerSilentError(RemoteProtocolError):
    """The peer left a PING unanswered, or never finished its handshake."""


class RequestError(MagnetarError):
    """A request that is rejected with ``code``; the connection stays open."""

    def __init__(self, code: ServerError, message: str, limit: Limit | None = None) -> None:
        """Keep the code of the answer, and the exceeded limit, if any."""
        super().__init__(message)
        self.code = code
        self.limit = limit


class LinkHeldError(RequestError):
    """A task cannot take a link, because another task holds it."""

    def __init__(self, message: str, pipeline: str | None) -> None:
        """Use Pulsar's code for an invalid topic name."""
        super().__init__(ServerError.ConsumerBusy, message)
        self.pipeline = pipeline


class LinkRestsError(RequestError):
    """A source ended the consumer of a link that has nothing to carry."""


class InvalidTopicNameError(RequestError):
    """A topic or namespace name that Pulsar rejects."""

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        """Use Pulsar's code for it."""
        super().__init__(ServerError.InvalidTopicName, message, limit)


class SchemaError(RequestError):
    """A schema that is refused. Its text may come from a client; only what can be sent of it is kept."""

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        """Use Pulsar's code for schemas."""
        text = message.encode(errors="replace").decode()
        super().__init__(ServerError.IncompatibleSchema, text, limit)


class IncompatibleSchemaError(SchemaError):
    """A schema that may not be used with the schemas that a topic has."""


class InvalidSchemaError(SchemaError):
    """A schema whose definition does not follow the rules of its type, or exceeds a limit."""


class TopicLoadError(RequestError):
    """A topic that cannot be loaded; the text names the topic, the damage and the remedy. Other topics are served."""


class AdminError(MagnetarError):
    """A rejected admin request, answered with ``status`` and ``{"reason": message}``."""

    def __init__(self, status: HTTPStatus, message: str, limit: Limit | None = None) -> None:
        """Keep the HTTP status, and the exceeded limit, if any."""
        super().__init__(message)
        self.status = status
        self.limit = limit


class ClusterUnreachableError(MagnetarError):
    """The admin URL of a cluster does not answer; the text names the URL."""


class AuthenticationFailure(StrEnum):
    """The kinds of failed authentication, as the metrics name them."""

    MISSING = "missing"
    """There are no credentials of a method that the broker accepts. It is no attempt to guess any."""
    INVALID = "invalid"
    EXPIRED = "expired"
    ORIGINAL_PRINCIPAL = "original_principal"
    """Another role than that of a proxy names an original principal, or a proxy names none."""
    LIMIT = "limit"
    ISSUER = "issuer"
    """The keys of the issuer of a token are not available."""
    DEFECT = "defect"
    """A defect of the broker; see its log."""


class AuthenticationFailedError(MagnetarError):
    """A client has not proved a role. The text is for the log; it contains nothing that the client sent."""

    def __init__(
        self, message: str, kind: AuthenticationFailure = AuthenticationFailure.INVALID, limit: Limit | None = None
    ) -> None:
        """Keep the kind of the failure, and the exceeded limit, if any."""
        super().__init__(message)
        self.kind = kind
        self.limit = limit


class ConfigurationError(MagnetarError):
    """An invalid setting; the text names the key and the fix."""


class StorageError(MagnetarError):
    """A write could not be made durable, or stored data could not be read."""


class StorageShortageError(StorageError):
    """A temporary lack of space; nothing of the failed write remains, and later writes may succeed."""


class DiskFullError(StorageShortageError):
    """No space left on the disk."""


class TooManyOpenFilesError(DiskFullError):
    """Too many open files. As with a full disk, nothing of the failed write remains."""


class StoreFencedError(StorageError):
    """Another writer has taken over the log. Nothing can be written here any more, even if the log is opened again."""


class SegmentRemovedError(StorageError):
    """A segment of the log was removed, because none of its entries was needed any more."""


class CorruptionError(StorageError):
    """Stored data do not match their checksum or their format."""


class DamagedEntriesError(CorruptionError):
    """Entries whose stored bytes are damaged."""

    def __init__(self, message: str, ledger_id: int, first: int, end: int) -> None:
        """Keep the damaged entries: ``first`` (inclusive) to ``end`` (exclusive)."""
        super().__init__(message)
        self.ledger_id = ledger_id
        self.first = first
        self.end = end


class ManagedLedgerFencedError(StorageError):
    """Another writer has taken over a topic's list of ledgers; the text names the topic."""


class DataLossError(StorageError):
    """Entries are missing between two positions; the text names both positions."""


class LinkGapError(DataLossError):
    """An entry of a link is rejected because earlier entries are missing; the text names both positions."""

    def __init__(self, message: str, origin: str, last: Position) -> None:
        """Note that the newest entry of ``origin`` that is here has the position ``last``, EARLIEST without one."""
        super().__init__(message)
        self.origin = origin
        self.last = last


class MigrationError(MagnetarError):
    """A migration between clusters cannot go on; the text names the reason."""


class MigrationStateError(MigrationError):
    """An event that is not possible in the present state of a migration."""


class InterruptedMigrationError(MigrationError):
    """A migration was stopped before it was ready."""

    def __init__(self) -> None:
        """Create the error, whose text is always the same."""
        super().__init__("interrupted\nhint: run the same command again to continue")


class MetadataError(MagnetarError):
    """Root of the errors of a metadata store."""


class BadVersionError(MetadataError):
    """A compare-and-set expected another version."""


class NotFoundError(MetadataError):
    """A resource does not exist."""
