"""Status messages from a running task to the driver: one datagram a second, which may be lost.

Spark reports a micro-batch only at its end, and a lease is one micro-batch.
"""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.spreading import NO_TRAFFIC
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATAGRAM_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of one task."""

    target: str
    lease: int
    carrying: bool
    """Whether the task's slot has begun and its target is connected."""
    down: dict[str, str] = field(default_factory=dict)
    """Clusters that are not connected, with the reasons."""
    links: int = 0
    """Number of attached topics, over all sources."""
    parked: dict[str, str] = field(default_factory=dict)
    """Parked topics as ``source topic``, with the reasons."""
    rivals: list[str] = field(default_factory=list)
    """Other pipelines that hold links of this task, sorted."""
    entries: int = 0
    """Number of entries received from the sources since the task began."""
    in_flight_bytes: int = 0
    part: int = 0
    """The number of the task among those of the target and the lease."""
    traffic: Sequence[int] = NO_TRAFFIC
    """Bytes of the received entries by bucket (`magnetar.pipeline.spreading`), since the task began."""


def encode_status(status: TaskStatus) -> bytes:
    """Encode a status as one datagram; parked topics beyond its size are left out."""
    data = json.dumps(asdict(status)).encode()
    if len(data) <= _DATAGRAM_BYTES:
        return data
    return json.dumps(asdict(status) | {"parked": {f"{len(status.parked)} topics": "too many to name"}}).encode()


def decode_status(data: bytes) -> TaskStatus:
    """Decode a datagram; raises ValueError or TypeError for an invalid one."""
    status = TaskStatus(**json.loads(data))
    if len(status.traffic) != LINK_BUCKETS:
        message = f"traffic of {len(status.traffic)} buckets"
        raise ValueError(message)
    return replace(status, traffic=tuple(status.traffic))


class StatusSender:
    """The task's end."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Create a sender for the driver's ``address``; raises OSError if the name of its host is unknown."""
        # Resolved once, because a slow name server must not delay the links.
        found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        self._address = found[4]
        self._socket = socket.socket(found[0], socket.SOCK_DGRAM)
        self._socket.settimeout(0.0)

    def send(self, status: TaskStatus) -> None:
        """Send a status; errors are ignored."""
        with contextlib.suppress(OSError):
            self._socket.sendto(encode_status(status), self._address)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class StatusReceiver:
    """The driver's end."""

    def __init__(self, host: str, port: int = 0) -> None:
        """Listen on ``port`` of ``host``, 0: a free one; raises ConfigurationError if that is not possible."""
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind(address)
        except OSError as error:
            self._socket.close()
            message = (
                f"cannot receive the status of tasks on UDP port {port} of {host}: {error.strerror}"
                "\nhint: spark.driver.bindAddress is an address of the driver's machine, spark.driver.port a free port"
            )
            raise ConfigurationError(message) from error
        self._socket.settimeout(0.0)

    @property
    def port(self) -> int:
        """Return the port for the tasks."""
        return int(self._socket.getsockname()[1])

    def receive(self) -> list[TaskStatus]:
        """Return the messages received since the last call, in order."""
        statuses = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self._socket.recv(65_536)
                with contextlib.suppress(ValueError, TypeError):
                    statuses.append(decode_status(data))
        return statuses

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
