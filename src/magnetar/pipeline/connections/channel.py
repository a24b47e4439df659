"""The back-channel of a task: a local socket on which the writer reports to its reader.

Reader and writer of a task are two processes on one host. The reader opens the socket and names it in its first row.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from magnetar.pipeline.connections.reports import Report, ReportDecoder, encode_report
from magnetar.pipeline.work_files import WorkDirectory

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


_RECEIVE_BYTES = 256 * 1024


class ReportReceiver:
    """The reader's end, which accepts one writer."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_report: Callable[[Report], None], on_end: Callable[[], None]
    ) -> None:
        """Listen on a new socket at `path`; ``on_end`` is called when the writer has disconnected."""
        self._loop = loop
        self._on_report = on_report
        self._on_end = on_end
        self._directory = WorkDirectory()
        self.path = str(self._directory.path / "reports")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(0.0)
        self._socket.bind(self.path)
        self._socket.listen(1)
        self._decoder = ReportDecoder()
        self._accepted = False
        """Whether the writer has connected; then the path is not needed any more."""
        self.broken = False
        """Whether the writer has disconnected."""
        loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Close the socket and remove its path."""
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if not self._accepted:
            self._directory.close()

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            accepted, _ = self._socket.accept()
            self.close()
            self._accepted = True
            accepted.settimeout(0.0)
            self._socket = accepted
            self._loop.add_reader(accepted.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.broken = True
            self._on_end()
            self._loop.remove_reader(self._socket.fileno())
        for report in self._decoder.feed(data):
            self._on_report(report)


class ReportSender:
    """The writer's end. Reports to a reader that has ended are dropped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str) -> None:
        """Connect to the reader's socket; raises OSError if it does not exist any more."""
        self._loop = loop
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(0.0)
        self._buffer = bytearray()

    def send(self, report: Report) -> None:
        """Send a report, or queue it until the socket is writable."""
        self._buffer += encode_report(report)
        self._flush()

    def close(self) -> None:
        """Close the socket."""
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    def _flush(self) -> None:
        try:
            del self._buffer[: self._socket.send(self._buffer)]
        except BlockingIOError:
            pass
        except OSError:
            self._buffer.clear()
            self._loop.remove_writer(self._socket.fileno())
            return
        if self._buffer:
            self._loop.add_writer(self._socket.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._socket.fileno())
