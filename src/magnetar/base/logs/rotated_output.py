"""Output of child processes in a file that is rotated like the ``logFile`` of a broker."""

from __future__ import annotations

import logging
import os
from logging.handlers import RotatingFileHandler
from threading import Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE_MAX: Final = 100 << 20
"""Size at which the file is rotated (default of ``logFileMaxMB``)."""

FILES_KEPT: Final = 10
"""Number of rotated files that are kept (default of ``logFilesKept``)."""


class RotatingLog(RotatingFileHandler):
    """A log file that continues to grow while it cannot be rotated, for example without rights in its directory."""

    def doRollover(self) -> None:  # noqa: N802 - the name of the standard library
        """Rotate the file, or open it again."""
        try:
            super().doRollover()
        except OSError:
            if self.stream is None:
                self.stream = self._open()


class RotatedOutput:
    """A pipe for the output of processes, and a thread that writes its lines to a file.

    The thread ends when no process has the pipe open any more.
    """

    def __init__(self, file: Path, size_max: int = FILE_SIZE_MAX, kept: int = FILES_KEPT) -> None:
        """Open the file; raises OSError if that fails."""
        handler = RotatingLog(file, maxBytes=size_max, backupCount=kept, encoding="utf-8")
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
