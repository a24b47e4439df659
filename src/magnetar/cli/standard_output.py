"""The standard streams of a command. Failures of stdout are told apart from those of the command."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputError(Exception):
    """Stdout cannot be written: the disk is full, or the reader has gone."""

    def __init__(self, error: OSError) -> None:
        """Keep the reason."""
        super().__init__(f"cannot write the output: {error.strerror}")
        self.reader_is_gone = isinstance(error, BrokenPipeError)


def open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed at the start, as by ``>&-`` in a shell.

    Otherwise the next file would get the descriptor, and what a library writes to stderr would damage that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in order: the lowest free number is used
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - for the rest of the process
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


@contextmanager
def checked_output() -> Iterator[None]:
    """Raise OutputError if writing to stdout fails within the block, or at its end, when the rest is written."""
    stream = sys.stdout
    sys.stdout = cast("TextIO", _Checked(stream))
    try:
        yield
        sys.stdout.flush()
    except OutputError:
        # Python writes the rest when it exits, and would report the failure once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise
    finally:
        sys.stdout = stream


class _Checked:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _raising():
            return self._stream.write(text)

    def flush(self) -> None:
        with _raising():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of a stream
        return getattr(self._stream, name)


@contextmanager
def _raising() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error) from error
