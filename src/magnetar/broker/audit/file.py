"""The file of the audit log, and the thread that writes it. Nothing else waits for the disk."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from magnetar.base.errors import ConfigurationError
from magnetar.base.logs.rotated_output import RETRY_SECONDS, RotatingLog

if TYPE_CHECKING:
    import io
    from collections.abc import Callable

log = structlog.get_logger(__name__)

LINES_WAITING_MAX: Final = 10_000
"""Lines that wait for the disk. Further ones are lost, and counted."""

CLOSE_TIMEOUT_S: Final = 5.0
"""Time for the waiting lines at the end of the broker."""

_MODE: Final = 0o640
"""The file names clients and roles: it is not for each user of the machine."""


class AuditFile(RotatingLog):
    """Appends lines; it is rotated before it exceeds its size. A line that cannot be written leaves no part behind."""

    def __init__(self, path: str, size_max: int, kept: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Open the file; raises OSError if that fails."""
        self.lost = 0
        """Number of lines that could not be written."""
        self.error: OSError | None = None
        """Why the last line could not be written; None if it was."""
        super().__init__(path, size_max, kept, monotonic)
        self._warn_at = monotonic()
        self._complete = self._size()

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.fdopen(os.open(self.baseFilename, flags, _MODE), "a", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Append a line."""
        error, self.error = self.error, None
        super().emit(record)
        if self.error is None:
            self._complete = self._size()
            if error is not None:
                log.warning("audit_log_written_again", file=self.baseFilename, lost=self.lost)

    def doRollover(self) -> None:  # noqa: N802 - the name of the standard library
        """Rotate the file, or open it again."""
        super().doRollover()
        self._complete = self._size()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - the name of the standard library
        """Count the line, remove the part of it that was written, and warn once in a while."""
        error = sys.exc_info()[1]
        assert isinstance(error, Exception), "emit handles exceptions only"
        self.lost += 1
        self.error = error if isinstance(error, OSError) else OSError(str(error))
        stream, self.stream = self.stream, None  # emit opens the file again
        with suppress(OSError):
            if stream is not None:
                stream.close()
        with suppress(OSError):
            if os.stat(self.baseFilename).st_size > self._complete:  # noqa: PTH116 - as the standard library names it
                os.truncate(self.baseFilename, self._complete)
        if self._monotonic() >= self._warn_at:
            self._warn_at = self._monotonic() + RETRY_SECONDS
            log.warning("audit_log_not_written", file=self.baseFilename, reason=str(self.error), lost=self.lost)

    def _size(self) -> int:
        return 0 if self.stream is None else os.fstat(self.stream.fileno()).st_size


class AuditWriter:
    """A thread that writes lines to a file."""

    def __init__(self, path: str, size_max: int, kept: int) -> None:
        """Open the file, and start the thread; raises ConfigurationError if the file cannot be used."""
        try:
            self._file = AuditFile(path, size_max, kept)
        except OSError as error:
            message = f"cannot write auditLogFile {path}: {error.strerror}\nhint: name another file"
            raise ConfigurationError(message) from error
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Number of lines that could not be written, or did not wait because too many did."""
        return self._file.lost + self._dropped

    @property
    def is_failing(self) -> bool:
        """Whether the last line could not be written."""
        return self._file.error is not None

    def write(self, line: str) -> bool:
        """Write a line later; return whether it is among those that wait. It never blocks."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1
            return False
        return True

    def close(self) -> None:
        """Write the waiting lines, as long as the disk is not stuck, and close the file."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=CLOSE_TIMEOUT_S)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._file.handle(logging.makeLogRecord({"msg": line}))
        self._file.close()
