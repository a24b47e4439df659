"""What deduplication knows of a topic's producers: how far each has come, and whether that is durable (PIP-6).

A producer numbers its messages in ascending order, with holes if it likes, so its highest sequence id says which of its
messages are here. There are two of them: of what was *pushed*, taken for writing, and of what is *persisted*. A message
is compared with the first and nothing but the second is ever written down or told to a producer. Both are kept in one
map and, only while a producer has writes under way, a second one.

The map goes to the disk as deltas of the producers that changed, and as checkpoints of all of them. Format, little
endian: version u8 = 1, the position up to which it accounts for the log i64 i64, number of producers u32, number of
forgotten ones u32, the producers' sequence ids u64[], the lengths in bytes of the names of both u32[], and the names in
UTF-8. The log checks its own bytes.
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
"""The highest sequence id of a producer that nothing is known of."""

SEQUENCE_ID_MAX = 2**64 - 1

_VERSION = 1
_HEAD = struct.Struct("<BqqII")


class Verdict(Enum):
    """What to do with a message, or with a batch of them."""

    NEW = "new"  # not here: store it
    DUPLICATE = "duplicate"  # here, or on its way to the disk before whatever is asked next
    OVERLAP = "overlap"  # a batch that begins with messages that are here and ends with some that are not
    UNKNOWN = "unknown"  # a write before it failed, and what came behind that is not settled yet


def judge(pushed: int, lowest: int, highest: int) -> Verdict:
    """Judge messages ``lowest`` to ``highest``, both inclusive, of a producer that has come as far as ``pushed``."""
    if lowest > pushed:
        return Verdict.NEW
    return Verdict.DUPLICATE if highest <= pushed else Verdict.OVERLAP


def highest_of(sequence_id: int, highest_sequence_id: int, num_messages: int) -> int:
    """The sequence id of the last message of an entry, as its SEND or its metadata says or, if not, at least."""
    return min(highest_sequence_id or sequence_id + max(num_messages, 1) - 1, SEQUENCE_ID_MAX)


class _UnderWay:
    """The writes of one producer that are not reported yet."""

    __slots__ = ("has_failed", "highest", "own_failed", "runs")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.runs = 0
        self.has_failed = False
        """Whether one of them failed."""
        self.own_failed: int | None = None
        """The lowest ``highest`` of those that failed and were published in this cluster."""


class SequenceIds:
    """The highest sequence ids of one topic's producers.

    After a write that failed none that is behind it in the log succeeds, which the log promises; one that was refused,
    and never got as far as the log, may be reported before those that did. Times are in seconds.
    """

    def __init__(self) -> None:
        """Know nobody."""
        self._persisted: dict[str, int] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._connected: set[str] = set()
        self._inactive: dict[str, float] = {}
        """The known producers that are not connected and since when nothing was heard of them; the longest first."""
        self._changed: dict[str, int] = {}
        """Producers that changed, or were forgotten, since the last snapshot, which is a delta or a checkpoint: their
        sequence id in it, UNKNOWN_PRODUCER when they are not in it."""
        self._in_snapshot = 0
        """How many producers the last snapshot knows, with all before it."""

    def __len__(self) -> int:
        """How many producers are known."""
        return len(self._persisted)

    # --- publishing ------------------------------------------------------------------------------------------------

    def pushed(self, name: str) -> int:
        """The highest sequence id that was taken for writing; UNKNOWN_PRODUCER when there is none."""
        under_way = self._under_way.get(name)
        return under_way.highest if under_way is not None else self._persisted.get(name, UNKNOWN_PRODUCER)

    def persisted(self, name: str) -> int:
        """The highest sequence id that is durable; UNKNOWN_PRODUCER when there is none."""
        return self._persisted.get(name, UNKNOWN_PRODUCER)

    def has_failed(self, name: str) -> bool:
        """Whether a write failed and others that were pushed behind it are still to be reported."""
        under_way = self._under_way.get(name)
        return under_way is not None and under_way.has_failed

    def check(self, name: str, lowest: int, highest: int) -> Verdict:
        """Judge messages ``lowest`` to ``highest``, both inclusive, of one producer."""
        return Verdict.UNKNOWN if self.has_failed(name) else judge(self.pushed(name), lowest, highest)

    def push(self, name: str, highest: int) -> None:
        """Messages up to ``highest`` are being written; ``settle`` follows."""
        under_way = self._under_way.get(name)
        if under_way is None:
            under_way = self._under_way[name] = _UnderWay(self._persisted.get(name, UNKNOWN_PRODUCER))
        under_way.highest = max(under_way.highest, highest)
        under_way.runs += 1

    def settle(self, name: str, highest: int, now: float, *, durable: bool, is_own: bool = True) -> None:
        """Tell the outcome of a push of this producer: its ``highest``, and whether it is durable.

        After one that is not, nothing is taken from the producer until all that it pushed is settled; then it is where
        its durable messages end, so that it can send the others again. ``is_own`` is False for messages that were
        published in another cluster: links bring them whatever failed before, those of a producer that has moved by
        several links, and so one may succeed behind another that was refused.
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
        """Messages up to ``highest`` are in the log."""
        before = self._persisted.get(name, UNKNOWN_PRODUCER)
        if highest > before:
            self._persisted[name] = highest
            self._changed.setdefault(name, before)
            if name not in self._connected:
                self._touch(name, now)

    # --- who is there ----------------------------------------------------------------------------------------------

    def joined(self, name: str) -> None:
        """A producer is connected: it is not forgotten while it is."""
        self._connected.add(name)
        self._inactive.pop(name, None)

    def left(self, name: str, now: float) -> None:
        """A producer is gone; it may come back."""
        self._connected.discard(name)
        if name in self._persisted:
            self._touch(name, now)

    def forget_inactive(self, heard_before: float) -> int:
        """Forget the producers that nothing was heard of since before that time; returns how many."""
        doomed: list[str] = []
        for name, since in self._inactive.items():
            if since >= heard_before:
                break
            doomed.append(name)
        return self._forget(doomed)

    def forget_excess(self, producers_max: int) -> int:
        """Forget the longest inactive producers until ``producers_max`` remain, or all are connected; how many."""
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
        """Whether ``delta`` has anything to say."""
        return bool(self._changed)

    def delta(self, through: Position) -> bytes:
        """What changed in the durable part since the last call; it accounts for the log up to ``through``."""
        changed, self._changed = self._changed, {}
        self._in_snapshot = len(self._persisted)
        kept = [name for name in changed if name in self._persisted]
        forgotten = [name for name in changed if name not in self._persisted]
        return _encode(through, kept, [self._persisted[name] for name in kept], forgotten)

    def checkpoint(self, through: Position) -> bytes:
        """The whole durable part, which accounts for the log up to ``through`` at least; the next delta begins here."""
        self._changed.clear()
        self._in_snapshot = len(self._persisted)
        return _encode(through, list(self._persisted), list(self._persisted.values()), ())

    def last_snapshot(self, producers_max: int) -> tuple[dict[str, int], int]:
        """What the last snapshot says: ``producers_max`` producers at most, and how many more there are."""
        kept = ((name, self._changed.get(name, highest)) for name, highest in self._persisted.items())
        forgotten = ((name, highest) for name, highest in self._changed.items() if name not in self._persisted)
        known = (each for each in chain(kept, forgotten) if each[1] != UNKNOWN_PRODUCER)
        shown = dict(islice(known, producers_max))
        return shown, self._in_snapshot - len(shown)

    def load(self, snapshots: Iterable[bytes], now: float) -> Position:
        """Take over a checkpoint and the deltas behind it, oldest first; returns up to where they account for the log.

        Every producer counts as inactive from ``now``: how long the broker was away is no fault of theirs. Raises
        CorruptionError for what cannot be read.
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
            struct.pack(f"<{len(sequence_ids)}Q", *sequence_ids),
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
        sequence_ids = struct.unpack_from(f"<{kept}Q", data, at)
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
