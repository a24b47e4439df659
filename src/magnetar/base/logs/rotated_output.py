"""Output of child processes in a file that is rotated like the ``logFile`` of a broker."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE_SIZE_MAX: Final = 100 << 20
"""Size at which the file is rotated (default of ``logFileMaxMB``)."""

FILES_KEPT: Final = 10
"""Number of rotated files that are kept (default of ``logFilesKept``)."""

RETRY_SECONDS: Final = 60.0
"""Pause after a failed rotation, and between two reports of lines that could not be written."""


class RotatingLog(RotatingFileHandler):
    """A log file that continues to grow while it cannot be rotated, for example without rights in its directory."""

    def __init__(
        self, file: str | Path, size_max: int, kept: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Open the file; raises OSError if that fails. It is rotated before it exceeds ``size_max`` bytes."""
        super().__init__(file, maxBytes=size_max, backupCount=kept, encoding="utf-8")
        self._monotonic = monotonic
        self._rotate_at = self._report_at = monotonic()

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - the name of the standard library
        """Return whether the file has to be rotated before a line; False for a while after a failed rotation."""
        return self._monotonic() >= self._rotate_at and bool(super().shouldRollover(record))

    def doRollover(self) -> None:  # noqa: N802 - the name of the standard library
        """Rotate the file, or open it again."""
        try:
            super().doRollover()
        except OSError:
            self._rotate_at = self._monotonic() + RETRY_SECONDS
            if self.stream is None:
                self.stream = self._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - the name of the standard library
        """Report on stderr that lines are lost, for example because the disk is full, not for every line."""
        if self._monotonic() >= self._report_at:
            self._report_at = self._monotonic() + RETRY_SECONDS
            report = {"event": "log_not_written", "file": self.baseFilename, "error": str(sys.exc_info()[1])}
            with suppress(OSError):  # stderr may be on the same disk
                sys.stderr.write(json.dumps(report) + "\n")
                sys.stderr.flush()


class RotatedOutput:
    """A pipe for the output of processes, and a thread that writes its lines to a file.

    The thread ends when no process has the pipe open any more.
    """

    def __init__(self, file: Path, size_max: int = FILE_SIZE_MAX, kept: int = FILES_KEPT) -> None:
        """Open the file; raises OSError if that fails."""
        handler = RotatingLog(file, size_max, kept)
        source, self.sink = os.pipe()  # the sink is for the processes
        self._thread = Thread(target=_copy, args=(source, handler), name=f"output to {file}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close this process's end of the pipe."""
        os.close(self.sink)

    def drain(self, timeout_s: float) -> None:
        """Wait until all output of processes that have ended is written."""
        self._thread.join(timeout_s)


def _copy(source: int, handler: RotatingLog) -> None:
    with open(source, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            handler.handle(logging.makeLogRecord({"msg": line.rstrip("\n")}))
    handler.close()
