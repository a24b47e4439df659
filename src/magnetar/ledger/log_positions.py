"""The positions of a topic's log: which entries there are, which of them are durable, and how old they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.parts import Part
from magnetar.base.position import Position
from magnetar.ledger.chain_recovery import CLOCK_SET_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.world import Clock
    from magnetar.ledger.chain import ChainLedger
    from magnetar.ledger.chain_recovery import RecoveredChain


class LogPositions(Part):
    """The entries of one topic by position. Used on the event loop's thread.

    All methods accept positions without an entry, which stand for their place in the order.
    """

    def __init__(self, recovered: RecoveredChain, clock: Clock) -> None:
        """Begin with the entries of a recovered chain."""
        self.chain = recovered.chain
        """The ledgers, with the entries that are not durable yet."""
        self.times = recovered.times
        """When the durable entries were appended."""
        self.last_confirmed_entry = recovered.last_confirmed_entry
        """The newest durable entry, even if it has been trimmed since; EARLIEST if there never was one."""
        self._opened_after = recovered.last_confirmed_entry
        self.wall_offset_s = recovered.wall_offset_s
        """The wall clock's lead over the monotonic clock, to which the times of closed ledgers refer."""
        self._clock = clock

    def wall_ms(self, monotonic_s: float | None = None) -> int:
        """Return a monotonic time, by default now, in milliseconds since the epoch by ``wall_offset_s``."""
        return int(((self._clock.monotonic() if monotonic_s is None else monotonic_s) + self.wall_offset_s) * 1000)

    def follow_wall_clock(self) -> bool:
        """If the wall clock was set, move the times of closing by as much; return whether it was set."""
        offset_s = self._clock.now() - self._clock.monotonic()
        moved_ms = round((offset_s - self.wall_offset_s) * 1000)
        if abs(moved_ms) < CLOCK_SET_MS:
            return False
        self.wall_offset_s = offset_s
        for ledger in self.chain.ledgers:
            if ledger.closed_ms is not None:
                ledger.closed_ms += moved_ms
        return True

    @property
    def entries(self) -> int:
        """Number of durable entries in the chain."""
        return self.chain.rank_after(self.last_confirmed_entry)

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries in the chain."""
        return self.chain.size

    @property
    def last_position(self) -> Position:
        """The newest entry, durable or not yet; the last confirmed one if the chain holds none."""
        entries = self.chain.entries
        return self.chain.position_of(entries - 1) if entries else self.last_confirmed_entry

    @property
    def first_position(self) -> Position:
        """The oldest entry; where the next one would go if the chain holds none."""
        if self.chain.entries:
            return self.chain.position_of(0)
        return self.chain.next_position(self.last_confirmed_entry)

    def ledgers(self) -> Sequence[ChainLedger]:
        """Return the ledgers of the chain, oldest first; not to be changed."""
        return self.chain.ledgers

    def next_position(self, position: Position) -> Position:
        """Return the first entry after ``position``, or a position up to which none can come any more."""
        return self.chain.next_position(position)

    def previous_position(self, position: Position) -> Position:
        """Return the last entry before ``position``; a lower position without an entry if there is none."""
        return self.chain.previous_position(position)

    def contains(self, position: Position) -> bool:
        """Whether there is an entry at ``position``, durable or not yet."""
        return self.chain.contains(position)

    def entries_in(self, ledger_id: int) -> int:
        """Return how many entries a ledger has, durable or not yet; 0 for one that is not in the chain."""
        ledger = self.chain.find(ledger_id)
        return ledger.entries if ledger is not None else 0

    def confirmed_in(self, ledger: ChainLedger) -> int:
        """Return how many entries of a ledger of the chain are durable."""
        newest = min(self.last_confirmed_entry, Position(ledger.ledger_id, ledger.entries))
        return self.count(Position(ledger.ledger_id, -1), newest)

    def count(self, after: Position, through: Position) -> int:
        """Return how many entries lie in ``(after, through]``."""
        return max(self.chain.rank_after(through) - self.chain.rank_after(after), 0)

    def size_after(self, position: Position) -> int:
        """Return the bytes of the entries after ``position``, about: those of one ledger count as of one size."""
        return self.chain.size_after(position)

    def position_before_last(self, size: int) -> Position:
        """Return the lowest position with at most ``size`` bytes after it, as ``size_after`` counts them."""
        return self.chain.position_before_last(size)

    def position_at(self, first: Position, index: int) -> Position:
        """Return the entry that is ``index`` entries behind ``first``; raises IndexError if there is none."""
        return self.chain.position_of(self._rank_from(first) + index)

    def age_of(self, position: Position) -> float:
        """Return for how many seconds, at least, the entry at ``position`` has been in the log; 0.0 if there is none.

        The time of an append before a crash may not have been recorded: its entry counts from when the topic was opened
        after the crash (see ``has_recorded``).
        """
        bound = self.times.bound_of(position)
        return max(self._clock.monotonic() - bound, 0.0) if bound is not None else 0.0

    def has_recorded(self, position: Position) -> bool:
        """Whether the time of the append at ``position`` was recorded, at least roughly: when its ledger was closed."""
        ledger = self.chain.find(position.ledger_id)
        return ledger is not None and not ledger.is_recovered

    def is_age_exact(self, position: Position) -> bool:
        """Return whether ``age_of`` is the age of the entry at ``position``, nearly, and not only a lower bound.

        Of the ledgers that were closed when the topic was opened, only the time of the newest append is recorded.
        """
        return position > self._opened_after

    def position_older_than(self, age_s: float, *, inclusive: bool = False) -> Position:
        """Return the position up to which every entry has been in the log for more than ``age_s`` seconds.

        ``inclusive``: for exactly that long is enough. Only durable entries count. The age is that of the copy in this
        cluster: publish times, which are the producers', have no influence, nor has a wall clock that is set. An entry
        is never taken for older than it is.
        """
        first = self.times.first_since(self._clock.monotonic() - age_s, inclusive=not inclusive)
        return self.last_confirmed_entry if first is None else self.chain.previous_position(first)

    def _rank_from(self, position: Position) -> int:
        """Return the rank of the first entry at or after ``position``."""
        return self.chain.rank_after(Position(position.ledger_id, position.entry_id - 1))

    def _readable(self, position: Position, max_entries: int) -> tuple[Position, int]:
        """Return the first entry at or after ``position``, and how many of its ledger may be read from there."""
        chain, last = self.chain, self.last_confirmed_entry
        ledger_id, entry_id = position
        if entry_id >= 0 and chain.ledgers and ledger_id == last.ledger_id == chain.ledgers[-1].ledger_id:
            return position, max(min(max_entries, last.entry_id + 1 - entry_id), 0)  # the usual case
        rank = self._rank_from(position)
        if rank >= chain.rank_after(last):
            return position, 0
        first = chain.position_of(rank)
        ledger = chain.find(first.ledger_id)
        assert ledger is not None
        end = last.entry_id + 1 if first.ledger_id == last.ledger_id else ledger.entries
        return first, min(max_entries, end - first.entry_id)
