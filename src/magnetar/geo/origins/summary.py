"""The origins of a ledger's entries in a few stretches, so that recovery need not examine each run. Pure.

Format, little endian: version u8 = 1, entries u32; for each stretch count u32, length u32 and an annotation
(annotation.py) without its start of the link, empty for locally published entries; at the end the CRC32C of all bytes
before it. A summary is redundant: an unreadable one is rebuilt from the log.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

from magnetar.base.errors import CorruptionError
from magnetar.geo.origins.annotation import Annotation, RunExtent, decode_annotation, encode_annotation, encode_extent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUMMARY_BYTES_MAX = 1 << 20
"""Maximum size of a summary. A ledger with frequent changes of origin gets none, because it would save nothing."""

STRETCH_EXTENTS_MAX = 1_000
"""Maximum number of extents in one stretch of ``merged``."""

_VERSION = 1
_HEAD = struct.Struct("<BI")
_STRETCH = struct.Struct("<II")
_CRC = struct.Struct("<I")


class Stretch(NamedTuple):
    """Consecutive entries of one cluster; ``origin`` is None for locally published entries."""

    entries: int
    origin: Annotation | None


class OriginSummary:
    """A summary in encoded form, built from the runs of a ledger in order. It takes SUMMARY_BYTES_MAX at most."""

    def __init__(self) -> None:
        """Begin without runs."""
        self.runs = 0
        self.entries = 0
        self._cluster: str | None = None
        self._open = 0
        """Number of entries in the stretch that may still grow; its origin is in the other attributes."""
        self._extents = bytearray()
        """The extents of that stretch, except for the newest one."""
        self._newest: RunExtent | None = None
        self._closed = bytearray()
        """The completed stretches."""
        self._too_long = False

    def add(self, count: int, annotation: bytes) -> None:
        """Add the next run; raises CorruptionError for an invalid annotation."""
        if annotation or self._cluster is not None:
            self.add_stretch(1, Stretch(count, decode_annotation(annotation) if annotation else None))
        else:  # extend the stretch of local entries, which has no extents
            self.runs += 1
            self.entries += count
            self._open += count

    def add_stretch(self, runs: int, stretch: Stretch) -> None:
        """Add the next runs, which have one origin."""
        self.runs += runs
        self.entries += stretch.entries
        if self._too_long:
            return
        origin = stretch.origin
        cluster = origin.cluster if origin is not None else None
        if cluster != self._cluster:
            self._closed += self._open_stretch()
            self._extents.clear()
            self._open, self._newest, self._cluster = 0, None, cluster
        for extent in origin.extents if origin is not None else ():
            joined = None if self._newest is None else join(self._newest, extent)
            if joined is None and self._newest is not None:
                self._extents += encode_extent(self._newest)
            self._newest = joined or extent
        self._open += stretch.entries
        if len(self._closed) + len(self._extents) > SUMMARY_BYTES_MAX:
            self._too_long = True
            self._closed.clear()
            self._extents.clear()

    def encode(self) -> bytes | None:
        """Return the encoded summary; None if it would exceed SUMMARY_BYTES_MAX."""
        body = b"".join((_HEAD.pack(_VERSION, self.entries), self._closed, self._open_stretch()))
        if self._too_long or len(body) + _CRC.size > SUMMARY_BYTES_MAX:
            return None
        return body + _CRC.pack(google_crc32c.value(body))

    def _open_stretch(self) -> bytes:
        if not self._open:
            return b""
        annotation = b""
        if self._cluster is not None:
            newest = encode_extent(self._newest) if self._newest is not None else b""
            annotation = b"".join((encode_annotation(self._cluster, ()), self._extents, newest))
        return _STRETCH.pack(self._open, len(annotation)) + annotation


def join(one: RunExtent, next_one: RunExtent) -> RunExtent | None:
    """Join two extents if the second continues the first in its origin positions and floor; otherwise return None."""
    ledger_id, entry_id = one.origin_first
    last = entry_id + one.count - 1
    if next_one.origin_first == (ledger_id, last + 1) and next_one.floor == (ledger_id, last):
        return RunExtent(one.origin_first, one.count + next_one.count, one.floor)
    return None


def merged(runs: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Stretch]]:
    """Merge runs, given as entry count and annotation, into stretches; yield each with its number of runs.

    A stretch has about STRETCH_EXTENTS_MAX extents at most, so stretches of one cluster may follow each other. Raises
    CorruptionError for an invalid annotation.
    """
    cluster: str | None = None
    extents: list[RunExtent] = []
    entries = gathered = 0
    for count, data in runs:
        origin = decode_annotation(data) if data else None
        its_cluster = origin.cluster if origin is not None else None
        if gathered and (its_cluster != cluster or len(extents) >= STRETCH_EXTENTS_MAX):
            yield gathered, _stretch(entries, cluster, extents)
            extents, entries, gathered = [], 0, 0
        cluster = its_cluster
        for extent in origin.extents if origin is not None else ():
            joined = join(extents[-1], extent) if extents else None
            if joined is None:
                extents.append(extent)
            else:
                extents[-1] = joined
        entries += count
        gathered += 1
    if gathered:
        yield gathered, _stretch(entries, cluster, extents)


def _stretch(entries: int, cluster: str | None, extents: list[RunExtent]) -> Stretch:
    if cluster is None:
        return Stretch(entries, None)
    return Stretch(entries, Annotation(cluster, tuple(extents), link_start=False))


def decode_summary(data: bytes, entries: int) -> list[Stretch] | None:
    """Decode the summary of a ledger with ``entries`` entries; return None if it is invalid."""
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
