"""The log of a broker: lines of structlog, to which the lines of all libraries are passed, on stderr or in a file."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import structlog

from magnetar.base.errors import ConfigurationError
from magnetar.base.logs.rotated_output import RotatingLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from magnetar.broker.settings.sections.log import LogSettings

log = structlog.get_logger(__name__)

_LEVELS = logging.getLevelNamesMapping()

_FORWARDED = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""Levels of forwarded lines. Libraries can have levels of their own, which are lowered to one of these."""

_MIB = 1 << 20


def configure_log(settings: LogSettings, log_limit: structlog.typing.Processor) -> None:
    """Configure the log of this process; raises ConfigurationError if the file cannot be opened."""
    level = _LEVELS[settings.logLevel.upper()]
    factory = RotatedFile(settings) if settings.logFile else StandardError(sys.stderr)
    structlog.configure(
        processors=[
            log_limit,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _renderer(settings),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[ForwardToLog()], level=max(level, logging.WARNING), force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = log_uncaught
    threading.excepthook = _log_uncaught_in_thread
    sys.unraisablehook = _log_unraisable


def log_problems(error: ConfigurationError) -> None:
    """Write the problems of a configuration that cannot be loaded to stderr, as one line of JSON."""
    text, _, hint = str(error).partition("\nhint: ")
    summary, *problems = text.split("\n  ")
    line = {"error": summary, "problems": problems, "hint": hint}
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.JSONRenderer(),
    ]
    problem_log = structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors=processors)
    problem_log.critical("configuration_invalid", **{name: value for name, value in line.items() if value})


def _renderer(settings: LogSettings) -> structlog.typing.Processor:
    is_terminal = not settings.logFile and sys.stderr.isatty()
    if settings.logFormat == "json" or (settings.logFormat == "auto" and not is_terminal):
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=is_terminal and not os.environ.get("NO_COLOR"))


class StandardError:
    """A factory of loggers that write to stderr. A broker outlives the reader of its log, and a full disk."""

    def __init__(self, stream: TextIO) -> None:
        """Write to ``stream``."""
        self._logger = structlog.PrintLogger(stream)

    def __call__(self, *_arguments: object) -> StandardError:
        """Return the logger."""
        return self

    def msg(self, line: str) -> None:
        """Write a line; it is lost if that fails."""
        with suppress(OSError):
            self._logger.msg(line)

    debug = info = warning = error = critical = msg


class RotatedFile:
    """A factory of loggers that write to one file. The file is rotated before it exceeds its size."""

    def __init__(self, settings: LogSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Open the file."""
        size_max, kept = settings.logFileMaxMB * _MIB, settings.logFilesKept
        try:
            self._handler = RotatingLog(settings.logFile, size_max, kept, monotonic)
        except OSError as error:
            message = f"cannot write logFile {settings.logFile}: {error.strerror}\nhint: name another file"
            raise ConfigurationError(message) from error

    def __call__(self, *_arguments: object) -> RotatedFile:
        """Return the logger."""
        return self

    def msg(self, line: str) -> None:
        """Write a line."""
        self._handler.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()

    debug = info = warning = error = critical = msg


class ForwardToLog(logging.Handler):
    """Passes the lines of libraries, and warnings of Python, to the log of the broker."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a line."""
        message = record.getMessage().strip()
        level = max((each for each in _FORWARDED if each <= record.levelno), default=logging.INFO)
        log.log(level, "library_log", logger=record.name, message=message, exc_info=record.exc_info)


def log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Log an exception that ends the process."""
    if issubclass(kind, KeyboardInterrupt):
        return
    log.critical("uncaught_exception", error=repr(error), exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(context: threading.ExceptHookArgs) -> None:
    """Log an exception that ends a thread."""
    if context.exc_value is None or issubclass(context.exc_type, SystemExit):
        return
    thread = context.thread.name if context.thread is not None else ""
    error = (context.exc_type, context.exc_value, context.exc_traceback)
    log.critical("uncaught_exception", thread=thread, error=repr(context.exc_value), exc_info=error)


def _log_unraisable(context: sys.UnraisableHookArgs) -> None:
    """Log an exception that cannot be raised, for example of a finalizer."""
    error = context.exc_value
    log.error("unraisable_exception", message=context.err_msg, where=repr(context.object), exc_info=error)
