"""Notes when the pipeline's Python processes pass messages on. ``bench.hops`` puts this directory on their path.

Python imports a module with this name at its start. Each line of a process's file in the directory HOPS_TRACES is the
name of the process that gets a message next, the message's number and a time on the monotonic clock in nanoseconds.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_STAMP = struct.Struct(">Qq")  # as in bench.end_to_end, which these processes cannot import
_MARK = b"magnetar bench"


def _note(name: str, entries: Iterable[Any]) -> None:
    now, lines = time.monotonic_ns(), ""
    for entry in (each.entry for each in entries):
        at = entry.find(_MARK)
        while at >= _STAMP.size:
            lines += f"{name} {_STAMP.unpack_from(entry, at - _STAMP.size)[0]} {now}\n"
            at = entry.find(_MARK, at + len(_MARK))
    with open(f"{os.environ['HOPS_TRACES']}/{os.getpid()}", "a", encoding="ascii") as file:  # noqa: PTH123 - quicker
        file.write(lines)


def _passing_on(encode_chunks: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def traced(entries: list[Any]) -> Any:  # noqa: ANN401
        _note("virtual-machine", entries)
        return encode_chunks(entries)

    return traced


def _taking(decode_chunk: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    def traced(body: Any) -> list[Any]:  # noqa: ANN401
        entries = decode_chunk(body)
        _note("writer", entries)
        return entries

    return traced


_TRACED = {
    "magnetar.pipeline.reading.reader": ("encode_chunks", _passing_on),
    "magnetar.pipeline.writing.writer": ("decode_chunk", _taking),
}


class _Tracing(Loader):
    """Replaces a function of a module after its import."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        name, wrap = _TRACED[module.__name__]
        setattr(module, name, wrap(getattr(module, name)))


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in _TRACED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Tracing(spec.loader)
        return spec


if "HOPS_TRACES" in os.environ:
    sys.meta_path.insert(0, _Finder())
