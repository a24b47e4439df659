"""The columns of one origin's extents: the newest uncompressed, all older ones in compressed blocks. Pure.

Two origins that alternate create an extent for each change, for as long as retention keeps the entries. Most queries
concern the newest extents. So older extents are compressed to some 2 to 6 bytes each, and a few recently used blocks
stay unpacked.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import accumulate
from operator import attrgetter, sub
from typing import TYPE_CHECKING, Self

from magnetar.base.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK_EXTENTS = 512
"""Number of extents in a block. Between one and two blocks of the newest extents are not compressed."""

UNPACKED_MAX = 32
"""Maximum number of unpacked blocks of a table, some 20 KiB each, the most recently used."""

_COMPRESSION_LEVEL = 1


class Places:
    """A sequence of ascending positions."""

    __slots__ = ("entries", "ledgers")

    def __init__(self) -> None:
        """Create an empty sequence."""
        self.ledgers = array("q")
        self.entries = array("q")

    def __getitem__(self, index: int) -> Position:
        """Return the position at an index."""
        return Position(self.ledgers[index], self.entries[index])

    def append(self, position: Position) -> None:
        """Append a position."""
        self.ledgers.append(position.ledger_id)
        self.entries.append(position.entry_id)

    def delete(self, first: int, stop: int) -> None:
        """Remove the positions from index ``first``, inclusive, to ``stop``, exclusive."""
        del self.ledgers[first:stop]
        del self.entries[first:stop]

    def at_or_below(self, position: Position) -> int:
        """Return the index of the last position at or below ``position``; -1 if there is none."""
        ledger_id, entry_id = position
        ledgers = self.ledgers
        low, high = bisect_left(ledgers, ledger_id), len(ledgers)
        if low < high and ledgers[-1] != ledger_id:  # otherwise it is the newest ledger, the most frequent one
            high = bisect_right(ledgers, ledger_id, low)
        return bisect_right(self.entries, entry_id, low, high) - 1


class _Block:
    """Consecutive extents in columns."""

    __slots__ = ("local", "origin", "through")

    def __init__(self) -> None:
        self.local = Places()
        self.origin = Places()
        self.through = array("q")

    def __len__(self) -> int:
        return len(self.through)

    def columns(self) -> list[array[int]]:
        return [self.local.ledgers, self.local.entries, self.origin.ledgers, self.origin.entries, self.through]

    def delete(self, first: int, stop: int) -> None:
        for column in self.columns():
            del column[first:stop]

    def pack(self, count: int) -> bytes:
        """Encode the first ``count`` extents: the first value and the differences of each column."""
        parts = []
        for column in self.columns():
            values = column[:count]
            parts.append(array("q", [values[0], *map(sub, values[1:], values)]).tobytes())
        return zlib.compress(b"".join(parts), _COMPRESSION_LEVEL)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Decode the result of ``pack``."""
        block = cls()
        steps = array("q", zlib.decompress(data))
        count = len(steps) // 5
        for number, column in enumerate(block.columns()):
            column.extend(accumulate(steps[number * count : (number + 1) * count]))
        return block


_LOCAL: Callable[[_Block], Places] = attrgetter("local")
_ORIGIN: Callable[[_Block], Places] = attrgetter("origin")


class ExtentTable:
    """Extents by index, the oldest is 0: local position, origin position, and a running number of entries."""

    __slots__ = ("_local_firsts", "_newest", "_origin_firsts", "_packed", "_removed", "_skipped", "_unpacked")

    def __init__(self) -> None:
        """Create an empty table."""
        self._packed: list[bytes] = []
        self._local_firsts = Places()  # first positions of the packed blocks
        self._origin_firsts = Places()
        self._newest = _Block()
        self._skipped = 0  # number of deleted extents of the oldest block
        self._removed = 0  # number of deleted blocks; with an index it identifies a block permanently
        self._unpacked: OrderedDict[int, _Block] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of extents."""
        return len(self._packed) * BLOCK_EXTENTS + len(self._newest) - self._skipped

    def append(self, local: Position, origin: Position, through: int) -> None:
        """Append an extent."""
        newest = self._newest
        newest.local.append(local)
        newest.origin.append(origin)
        newest.through.append(through)
        if len(newest) >= 2 * BLOCK_EXTENTS:
            self._local_firsts.append(newest.local[0])
            self._origin_firsts.append(newest.origin[0])
            self._packed.append(newest.pack(BLOCK_EXTENTS))
            newest.delete(0, BLOCK_EXTENTS)

    def grow_last(self, count: int) -> None:
        """Add to the running number of the last extent, which must exist."""
        self._newest.through[-1] += count

    def set_last_through(self, through: int) -> None:
        """Change the running number of the last extent, which must exist."""
        self._newest.through[-1] = through

    def local(self, index: int) -> Position:
        """Return the first local position of an extent."""
        block, at = self._find(index)
        return block.local[at]

    def origin(self, index: int) -> Position:
        """Return the first origin position of an extent."""
        block, at = self._find(index)
        return block.origin[at]

    def through(self, index: int) -> int:
        """Return the running number of an extent."""
        block, at = self._find(index)
        return block.through[at]

    def row(self, index: int) -> tuple[int, int, int, int, int]:
        """Return an extent as ledger and entry of its first local and origin positions, and its running number."""
        block, at = self._find(index)
        local, origin = block.local, block.origin
        return local.ledgers[at], local.entries[at], origin.ledgers[at], origin.entries[at], block.through[at]

    def through_before(self, index: int, default: int) -> int:
        """Return the running number of the extent before an index; ``default`` for the first one."""
        block, at = self._find(index)
        if at:
            return block.through[at - 1]
        return self.through(index - 1) if index else default

    def local_at_or_below(self, position: Position) -> int:
        """Return the index of the last extent that begins at or below a local position; -1 if there is none."""
        return self._at_or_below(position, _LOCAL, self._local_firsts)

    def origin_at_or_below(self, position: Position) -> int:
        """Return the index of the last extent that begins at or below an origin position; -1 if there is none."""
        return self._at_or_below(position, _ORIGIN, self._origin_firsts)

    def delete_first(self, count: int) -> None:
        """Remove the ``count`` oldest extents."""
        self._skipped += count
        gone = min(self._skipped // BLOCK_EXTENTS, len(self._packed))
        if gone:
            del self._packed[:gone]
            self._local_firsts.delete(0, gone)
            self._origin_firsts.delete(0, gone)
            self._skipped -= gone * BLOCK_EXTENTS
            self._removed += gone
            for number in [number for number in self._unpacked if number < self._removed]:
                del self._unpacked[number]
        if not self._packed:
            self._newest.delete(0, self._skipped)
            self._skipped = 0

    def keep_first(self, count: int) -> None:
        """Remove all but the ``count`` oldest extents."""
        kept = self._skipped + count
        while self._packed and kept <= len(self._packed) * BLOCK_EXTENTS:
            number = len(self._packed) - 1
            self._newest = _Block.unpack(self._packed.pop())
            self._local_firsts.delete(number, number + 1)
            self._origin_firsts.delete(number, number + 1)
            self._unpacked.pop(self._removed + number, None)
        self._newest.delete(kept - len(self._packed) * BLOCK_EXTENTS, len(self._newest))

    def _at_or_below(self, position: Position, column: Callable[[_Block], Places], firsts: Places) -> int:
        """Return the index of the last extent that begins at or below ``position`` in a column; -1 if there is none.

        ``firsts`` are the column's first positions of the packed blocks.
        """
        packed, at = len(self._packed), column(self._newest).at_or_below(position)
        if at < 0 and packed:
            packed = firsts.at_or_below(position)
            if packed < 0:
                return -1
            at = column(self._block(packed)).at_or_below(position)
        return max(-1, packed * BLOCK_EXTENTS + at - self._skipped)

    def _find(self, index: int) -> tuple[_Block, int]:
        """Return the block of an extent, and the index in it; a negative ``index`` counts from the end."""
        packed = len(self._packed) * BLOCK_EXTENTS
        at = index + self._skipped - packed if index >= 0 else index + len(self._newest.through)
        if at >= 0:
            return self._newest, at
        at += packed
        return self._block(at // BLOCK_EXTENTS), at % BLOCK_EXTENTS

    def _block(self, number: int) -> _Block:
        """Return an unpacked block."""
        key = self._removed + number
        block = self._unpacked.get(key)
        if block is None:
            block = self._unpacked[key] = _Block.unpack(self._packed[number])
            if len(self._unpacked) > UNPACKED_MAX:
                self._unpacked.popitem(last=False)
        else:
            self._unpacked.move_to_end(key)
        return block
