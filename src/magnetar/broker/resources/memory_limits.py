"""The limit of each share of a broker's memory, from the configuration and the machine's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.limits import BODY_SIZE_MAX, FRAME_SIZE_PADDING

if TYPE_CHECKING:
    from magnetar.broker.settings.config import BrokerConfig

_MIB = 1 << 20

DERIVED_FRACTION = 4
"""Divisor of the machine's memory; the result is clamped to DERIVED_MIN and DERIVED_MAX."""

DERIVED_MIN, DERIVED_MAX = 192 * _MIB, 1024 * _MIB
"""Bytes. Only the cache profits from more than DERIVED_MAX, and it has a setting of its own."""

PROCESS_BYTES = 88 * _MIB
"""Bytes of the process without topics and clients."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Maximum bytes of each share."""

    total: int
    """The whole process, including memory without a share."""
    publishes: int
    """Publishes in flight and arriving large frames."""
    reads: int
    """Entries that are read from the disk for dispatch and not sent yet."""
    one_read: int
    """Maximum of one such read, except for a single larger entry."""
    sending: int
    """Send buffers of all connections: bytes that clients have not read."""
    connection_sending: int
    """Send buffer of one connection."""
    bodies: int
    """Bodies of REST requests that are being read."""
    answers: int
    """Unread answers to REST requests."""
    cache: int
    """Cache of the newest entries of all topics."""
    tables: int
    """Index of the entries in the sealed files of the log."""

    @property
    def shares(self) -> int:
        """The sum of all shares."""
        return self.publishes + self.reads + self.sending + self.bodies + self.answers + self.cache + self.tables


def memory_limits(config: BrokerConfig, machine_bytes: int) -> MemoryLimits:
    """Divide the memory that ``config`` allows on a machine, or in a control group, of ``machine_bytes``.

    Raises ConfigurationError if the shares do not fit.
    """
    total = config.memoryLimitMB * _MIB or min(max(machine_bytes // DERIVED_FRACTION, DERIVED_MIN), DERIVED_MAX)
    frame = config.maxMessageSize + FRAME_SIZE_PADDING
    one_read = max(config.dispatcherMaxReadSizeBytes, frame)
    publishes_min = 4 * frame
    sending_min = 2 * (config.connectionSendBufferBytes + frame)
    limits = MemoryLimits(
        total=total,
        publishes=config.maxMessagePublishBufferSizeInMB * _MIB or max(total // 24, publishes_min),
        reads=config.managedLedgerMaxReadsInFlightSizeInMB * _MIB or max(total // 16, 2 * one_read),
        one_read=one_read,
        sending=config.maxSendBuffersSizeInMB * _MIB or max(total // 8, sending_min),
        bodies=config.maxRestBodiesSizeInMB * _MIB or max(total // 64, 2 * BODY_SIZE_MAX),
        answers=config.maxRestAnswersSizeInMB * _MIB or max(total // 32, 2 * BODY_SIZE_MAX),
        connection_sending=config.connectionSendBufferBytes,
        cache=total // 8 if config.managedLedgerCacheSizeMB < 0 else config.managedLedgerCacheSizeMB * _MIB,
        tables=total // 64,
    )
    for key, size, least in (
        ("maxMessagePublishBufferSizeInMB", limits.publishes, publishes_min),
        ("managedLedgerMaxReadsInFlightSizeInMB", limits.reads, one_read),
        ("maxSendBuffersSizeInMB", limits.sending, sending_min),
        ("maxRestBodiesSizeInMB", limits.bodies, 2 * BODY_SIZE_MAX),
        ("maxRestAnswersSizeInMB", limits.answers, 2 * BODY_SIZE_MAX),
    ):
        if size < least:
            message = f"{key}={size // _MIB}: must be at least {_ceil_mib(least)}, or 0 for a part of memoryLimitMB"
            raise ConfigurationError(message)
    if limits.shares + PROCESS_BYTES > total:
        raise ConfigurationError(_too_small(limits))
    return limits


def _too_small(limits: MemoryLimits) -> str:
    shares = (
        ("publishes in flight", limits.publishes),
        ("reads", limits.reads),
        ("send buffers", limits.sending),
        ("REST bodies", limits.bodies),
        ("REST answers", limits.answers),
        ("caches", limits.cache + limits.tables),
        ("the process", PROCESS_BYTES),
    )
    parts = ", ".join(f"{name} {_ceil_mib(size)}" for name, size in shares)
    needed = _ceil_mib(limits.shares + PROCESS_BYTES)
    return f"memoryLimitMB={limits.total // _MIB} is less than the {needed} MB of its shares: {parts}"


def _ceil_mib(size: int) -> int:
    return -(-size // _MIB)
