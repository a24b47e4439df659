"""All errors; the branches of the tree tell which side is at fault."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http import HTTPStatus

    from magnetar.base.limits import Limit


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
    """The limit that was exceeded, to be counted where the error is answered; None for other errors."""


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
    """A request that is refused with ``code``; the connection stays open."""

    def __init__(self, code: ServerError, message: str, limit: Limit | None = None) -> None:
        """Keep the code to answer with, and the limit that was exceeded, if one was."""
        super().__init__(message)
        self.code = code
        self.limit = limit


class LinkHeldError(RequestError):
    """A task may not have a link, because another task holds it."""

    def __init__(self, message: str, pipeline: str | None) -> None:
        """Use Pulsar's code for an invalid topic name."""
        super().__init__(ServerError.ConsumerBusy, message)
        self.pipeline = pipeline


class InvalidTopicNameError(RequestError):
    """A topic or namespace name that Pulsar would refuse."""

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        """Answer with Pulsar's own code for it."""
        super().__init__(ServerError.InvalidTopicName, message, limit)


class TopicLoadError(RequestError):
    """A topic that cannot be loaded; the text names the topic, the damage and the way out. Other topics are served."""


class AdminError(MagnetarError):
    """An admin request that cannot be granted: answered with ``status`` and ``{"reason": message}``."""

    def __init__(self, status: HTTPStatus, message: str, limit: Limit | None = None) -> None:
        """A write could not be made durable, or stored data could not be read."""
        super().__init__(message)
        self.status = status
        self.limit = limit


class ConfigurationError(MagnetarError):
    """A setting that cannot be used; the text names the key and the fix."""


class StorageError(MagnetarError):
    """Something could not be made durable or be read back."""


class StorageShortageError(StorageError):
    """Something cannot be stored for now; nothing of the failed write remains, later ones may succeed."""


class DiskFullError(StorageShortageError):
    """No space was left to write."""


class TooManyOpenFilesError(DiskFullError):
    """No file could be opened because too many are open. As with a full disk, nothing of the failed write remains."""


class StoreFencedError(StorageError):
    """Another writer has taken the log over: nothing can be written here any more, even if the log is opened again."""


class SegmentRemovedError(StorageError):
    """A segment of the log cannot be read because nothing in it was needed any more and it was removed."""


class CorruptionError(StorageError):
    """Root of the errors of a metadata store."""


class DamagedEntriesError(CorruptionError):
    """A compare-and-set expected another version."""

    def __init__(self, message: str, ledger_id: int, first: int, end: int) -> None:
        """Keep which entries: ``first`` up to, not including, ``end``."""
        super().__init__(message)
        self.ledger_id = ledger_id
        self.first = first
        self.end = end


class ManagedLedgerFencedError(StorageError):
    """Another writer has a topic's list of ledgers now; the text names the topic."""


class DataLossError(StorageError):
    """Entries are missing between two positions; the text names both."""


class LinkGapError(DataLossError):
    """An entry of a link that cannot be taken because entries before it are missing; the text names both positions."""


class MetadataError(MagnetarError):
    """Root of what a metadata store refuses."""


class BadVersionError(MetadataError):
    """A compare-and-set met another version than it expected."""


class NotFoundError(MetadataError):
    """A resource that does not exist."""
