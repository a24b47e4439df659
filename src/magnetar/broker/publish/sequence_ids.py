"""Highest sequence ids of a topic's producers, for deduplication (PIP-6).

A producer numbers its messages in ascending order, not necessarily consecutively, so its highest sequence id determines
the stored messages. Its first one may be negative. There are two highest sequence ids: of messages that were *pushed*
(accepted for writing), and of messages that are *persisted*. A message is compared with the first; only the second is
stored or reported to a producer. Both are kept in one map, and in a second one only while a producer has pending
writes.

The map is stored as deltas of changed producers and as checkpoints of all producers. Format, little endian: version
u8 = 1, the position of the log that it covers i64 i64, number of producers u32, number of evicted ones u32, the
producers' sequence ids i64[], the lengths in bytes of the names of both u32[], and the names in UTF-8. The log has
checksums of its own.
"""

from __future__ import annotations

import struct
from enum import Enum
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING

from magnetar.base.errors import CorruptionError
from magnetar.base.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNKNOWN_PRODUCER = -1
"""Sequence id that an unknown producer is told."""

SEQUENCE_ID_MAX = 2**63 - 1

NO_SEQUENCE_ID = -(2**63) - 1
"""Less than every sequence id: that of a producer without messages."""

_VERSION = 1
_HEAD = struct.Struct("<BqqII")


class Verdict(Enum):
    """Judgement of a message or a batch."""

    NEW = "new"  # not stored yet: store it
    DUPLICATE = "duplicate"  # stored, or being written before any later write
    OVERLAP = "overlap"  # a batch that begins with stored messages and ends with new ones
    UNKNOWN = "unknown"  # an earlier write failed, and later ones are not settled yet


def signed(sequence_id: int) -> int:
    """Return the sequence id that a client counts, given that of a SEND or of metadata, which is unsigned."""
    return sequence_id if sequence_id <= SEQUENCE_ID_MAX else sequence_id - (1 << 64)


def judge(pushed: int, lowest: int, highest: int) -> Verdict:
    """Judge messages ``lowest`` to ``highest``, both inclusive; ``pushed`` is the producer's highest sequence id."""
    if lowest > pushed:
        return Verdict.NEW
    return Verdict.DUPLICATE if highest <= pushed else Verdict.OVERLAP


def highest_of(sequence_id: int, highest_sequence_id: int, num_messages: int) -> int:
    """Return the sequence id of an entry's last message, from its SEND or metadata, else a lower bound."""
    return min(highest_sequence_id or sequence_id + max(num_messages, 1) - 1, SEQUENCE_ID_MAX)


class _UnderWay:
    """Pending writes of one producer."""

    __slots__ = ("has_failed", "highest", "own_failed", "runs")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.runs = 0
        self.has_failed = False
        """Whether a write failed."""
        self.own_failed: int | None = None
        """Lowest ``highest`` of failed writes that were published in this cluster."""


class SequenceIds:
    """The highest sequence ids of one topic's producers.

    After a failed write, no later write of the log succeeds, as the log promises. A refused write, which did not reach
    the log, may be reported before earlier ones. Times are in seconds.
    """

    def __init__(self) -> None:
        """Create the map, without producers."""
        self._persisted: dict[str, int] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._connected: set[str] = set()
        self._inactive: dict[str, float] = {}
        """Known producers that are not connected, with the times of their last activity, the oldest first."""
        self._changed: dict[str, int] = {}
        """Producers that changed, or were evicted, since the last snapshot (a delta or a checkpoint), with their
        sequence ids in it; NO_SEQUENCE_ID if they are not in it."""
        self._in_snapshot = 0
        """Number of producers in the last snapshot, with all before it."""

    def __len__(self) -> int:
        """Return the number of known producers."""
        return len(self._persisted)

    def all(self) -> dict[str, int]:
        """Return the highest durable sequence id of each known producer."""
        return dict(self._persisted)

    # --- publishing ------------------------------------------------------------------------------------------------

    def pushed(self, name: str) -> int:
        """Return the highest sequence id accepted for writing; NO_SEQUENCE_ID if there is none."""
        under_way = self._under_way.get(name)
        return under_way.highest if under_way is not None else self._persisted.get(name, NO_SEQUENCE_ID)

    def persisted(self, name: str) -> int:
        """Return the highest durable sequence id; UNKNOWN_PRODUCER if there is none."""
        return self._persisted.get(name, UNKNOWN_PRODUCER)

    def has_failed(self, name: str) -> bool:
        """Return whether a write failed and later ones are still pending."""
        under_way = self._under_way.get(name)
        return under_way is not None and under_way.has_failed

    def check(self, name: str, lowest: int, highest: int) -> Verdict:
        """Judge messages ``lowest`` to ``highest``, both inclusive, of one producer."""
        return Verdict.UNKNOWN if self.has_failed(name) else judge(self.pushed(name), lowest, highest)

    def push(self, name: str, highest: int) -> None:
        """Note that messages up to ``highest`` are being written; ``settle`` follows."""
        under_way = self._under_way.get(name)
        if under_way is None:
            under_way = self._under_way[name] = _UnderWay(self._persisted.get(name, NO_SEQUENCE_ID))
        under_way.highest = max(under_way.highest, highest)
        under_way.runs += 1

    def settle(self, name: str, highest: int, now: float, *, durable: bool, is_own: bool = True) -> None:
        """Note the outcome of a push of this producer: its ``highest``, and whether it is durable.

        After a failure, no message of the producer is accepted until all pushes are settled. Then the highest sequence
        id is that of its durable messages, so that it can send the others again. ``is_own`` is False for messages that
        were published in another cluster: links bring them regardless of failures, several links those of a producer
        that has moved, so that one can succeed after another was refused.
        """
        under_way = self._under_way[name]
        under_way.runs -= 1
        if not durable:
            under_way.has_failed = True
            if is_own:
                failed = under_way.own_failed
                under_way.own_failed = highest if failed is None else min(failed, highest)
        if under_way.runs == 0:
            del self._under_way[name]
        if durable:
            behind = is_own and under_way.own_failed is not None and highest > under_way.own_failed
            assert not behind, f"a write of {name} succeeded behind one that failed"
            self.replay(name, highest, now)

    def replay(self, name: str, highest: int, now: float) -> None:
        """Note that messages up to ``highest`` are in the log."""
        before = self._persisted.get(name, NO_SEQUENCE_ID)
        if highest > before:
            self._persisted[name] = highest
            self._changed.setdefault(name, before)
            if name not in self._connected:
                self._touch(name, now)

    # --- connected producers ---------------------------------------------------------------------------------------

    def joined(self, name: str) -> None:
        """Note that a producer is connected, so that it is not evicted."""
        self._connected.add(name)
        self._inactive.pop(name, None)

    def left(self, name: str, now: float) -> None:
        """Note that a producer has disconnected."""
        self._connected.discard(name)
        if name in self._persisted:
            self._touch(name, now)

    def forget_inactive(self, heard_before: float) -> int:
        """Evict producers without activity since that time; return their number."""
        doomed: list[str] = []
        for name, since in self._inactive.items():
            if since >= heard_before:
                break
            doomed.append(name)
        return self._forget(doomed)

    def forget_excess(self, producers_max: int) -> int:
        """Evict the longest inactive producers until ``producers_max`` remain or all are connected; return how many."""
        return self._forget(list(islice(self._inactive, max(0, len(self._persisted) - producers_max))))

    def _forget(self, names: Sequence[str]) -> int:
        for name in names:
            del self._inactive[name]
            self._changed.setdefault(name, self._persisted.pop(name))
        return len(names)

    def _touch(self, name: str, now: float) -> None:
        self._inactive.pop(name, None)
        self._inactive[name] = now

    # --- persistence -----------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether ``delta`` has content."""
        return bool(self._changed)

    def delta(self, through: Position) -> bytes:
        """Return the changes of the durable part since the last call, which cover the log up to ``through``."""
        changed, self._changed = self._changed, {}
        self._in_snapshot = len(self._persisted)
        kept = [name for name in changed if name in self._persisted]
        forgotten = [name for name in changed if name not in self._persisted]
        return _encode(through, kept, [self._persisted[name] for name in kept], forgotten)

    def checkpoint(self, through: Position) -> bytes:
        """Return the durable part, which covers the log at least up to ``through``; the next delta begins here."""
        self._changed.clear()
        self._in_snapshot = len(self._persisted)
        return _encode(through, list(self._persisted), list(self._persisted.values()), ())

    def last_snapshot(self, producers_max: int) -> tuple[dict[str, int], int]:
        """Return at most ``producers_max`` producers of the last snapshot, and the number of the others."""
        kept = ((name, self._changed.get(name, highest)) for name, highest in self._persisted.items())
        forgotten = ((name, highest) for name, highest in self._changed.items() if name not in self._persisted)
        known = (each for each in chain(kept, forgotten) if each[1] != NO_SEQUENCE_ID)
        shown = dict(islice(known, producers_max))
        return shown, self._in_snapshot - len(shown)

    def load(self, snapshots: Iterable[bytes], now: float) -> Position:
        """Load a checkpoint and its deltas, oldest first; return the position of the log that they cover.

        Every producer counts as inactive from ``now``, since the time of the broker's absence must not count. Raises
        CorruptionError for unreadable data.
        """
        through = EARLIEST
        for data in snapshots:
            through, kept, sequence_ids, forgotten = _decode(data)
            self._persisted.update(zip(kept, sequence_ids, strict=True))
            for name in forgotten:
                self._persisted.pop(name, None)
        self._in_snapshot = len(self._persisted)
        self._inactive = dict.fromkeys((name for name in self._persisted if name not in self._connected), now)
        return through


def _encode(through: Position, names: Sequence[str], sequence_ids: Sequence[int], forgotten: Sequence[str]) -> bytes:
    encoded = [name.encode() for name in (*names, *forgotten)]
    return b"".join(
        (
            _HEAD.pack(_VERSION, *through, len(names), len(forgotten)),
            struct.pack(f"<{len(sequence_ids)}q", *sequence_ids),
            struct.pack(f"<{len(encoded)}I", *map(len, encoded)),
            *encoded,
        )
    )


def _decode(data: bytes) -> tuple[Position, list[str], Sequence[int], list[str]]:
    try:
        version, ledger_id, entry_id, kept, forgotten = _HEAD.unpack_from(data)
        if version != _VERSION:
            message = f"snapshot of sequence ids has unknown version {version}"
            raise CorruptionError(message)
        at = _HEAD.size
        sequence_ids = struct.unpack_from(f"<{kept}q", data, at)
        at += 8 * kept
        lengths = struct.unpack_from(f"<{kept + forgotten}I", data, at)
        at += 4 * (kept + forgotten)
        names = [data[start:end].decode() for start, end in pairwise(accumulate(lengths, initial=at))]
        if at + sum(lengths) != len(data):
            message = f"snapshot of sequence ids ends at {at + sum(lengths)} of {len(data)} bytes"
            raise CorruptionError(message)
    except (struct.error, UnicodeDecodeError) as error:
        message = f"snapshot of sequence ids cannot be read: {error}"
        raise CorruptionError(message) from error
    return Position(ledger_id, entry_id), names[:kept], sequence_ids, names[kept:]
