"""The origins of a whole ledger's entries in a few stretches, so that recovery need not look at each of its runs. Pure.

Format, little endian: version u8 = 1, entries u32; for each stretch count u32, length u32 and an annotation
(annotation.py) without its start of the link, empty for entries that were produced here; at the end the CRC32C of all
before it. A summary says nothing that the log does not say: one that cannot be read is made again from the log.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

from magnetar.base.errors import CorruptionError
from magnetar.geo.annotation import Annotation, RunExtent, decode_annotation, encode_annotation

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = 1
_HEAD = struct.Struct("<BI")
_STRETCH = struct.Struct("<II")
_CRC = struct.Struct("<I")


class Stretch(NamedTuple):
    """Entries that follow each other and come from one cluster; ``origin`` is None for those produced here."""

    entries: int
    origin: Annotation | None


class OriginSummary:
    """Grows by the runs of a ledger, from its first on."""

    def __init__(self) -> None:
        """No run yet."""
        self.runs = 0
        self.entries = 0
        self._cluster: str | None = None
        self._extents: list[RunExtent] = []
        self._open = 0
        """Entries of the stretch that may still grow; its origin is in the two attributes above."""
        self._closed: list[Stretch] = []

    def add(self, count: int, annotation: bytes) -> None:
        """Add the run that follows; raises CorruptionError if its annotation cannot be read."""
        origin = decode_annotation(annotation) if annotation else None
        cluster = origin.cluster if origin is not None else None
        if cluster != self._cluster:
            self._close()
            self._cluster = cluster
        for extent in origin.extents if origin is not None else ():
            self._extend(extent)
        self._open += count
        self.entries += count
        self.runs += 1

    def stretches(self) -> Iterator[Stretch]:
        """All that was added, in order."""
        yield from self._closed
        if self._open:
            yield self._stretch()

    def encode(self) -> bytes:
        """The bytes to keep."""
        parts = [_HEAD.pack(_VERSION, self.entries)]
        for entries, origin in self.stretches():
            annotation = encode_annotation(origin.cluster, origin.extents) if origin is not None else b""
            parts += _STRETCH.pack(entries, len(annotation)), annotation
        body = b"".join(parts)
        return body + _CRC.pack(google_crc32c.value(body))

    def _close(self) -> None:
        if self._open:
            self._closed.append(self._stretch())
        self._extents, self._open = [], 0

    def _stretch(self) -> Stretch:
        if self._cluster is None:
            return Stretch(self._open, None)
        return Stretch(self._open, Annotation(self._cluster, tuple(self._extents), link_start=False))

    def _extend(self, extent: RunExtent) -> None:
        """Add an extent to the last one if it goes on where that ends, in the origin and in its floor."""
        if self._extents:
            newest = self._extents[-1]
            ledger_id, entry_id = newest.origin_first
            last = entry_id + newest.count - 1
            if extent.origin_first == (ledger_id, last + 1) and extent.floor == (ledger_id, last):
                self._extents[-1] = RunExtent(newest.origin_first, newest.count + extent.count, newest.floor)
                return
        self._extents.append(extent)


def decode_summary(data: bytes, entries: int) -> list[Stretch] | None:
    """Read the summary of a ledger of so many entries; None if it is not one, or not intact."""
    body = data[: -_CRC.size]
    if len(body) < _HEAD.size or _CRC.pack(google_crc32c.value(body)) != data[-_CRC.size :]:
        return None
    if _HEAD.unpack_from(body) != (_VERSION, entries):
        return None
    stretches, at = [], _HEAD.size
    try:
        while at < len(body):
            count, length = _STRETCH.unpack_from(body, at)
            at += _STRETCH.size + length
            annotation = body[at - length : at]
            stretches.append(Stretch(count, decode_annotation(annotation) if annotation else None))
    except (struct.error, CorruptionError):
        return None
    return stretches
