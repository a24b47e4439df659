"""The ids of ledgers: each is given once in a store, and durably reserved before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.life import Life
    from magnetar.ledger.segments.index import LogIndex


class LedgerIds:
    """Gives ids, in ascending order. Ids are reserved in blocks; a crash skips those of a block that are left."""

    def __init__(self, index: LogIndex, first: int, above: int, block: int, block_max: int) -> None:
        """Go on behind the ids of ``index``, from ``first`` on if it has none, and in any case above ``above``.

        ``block`` ids are reserved at first, and twice as many each time, up to ``block_max``.
        """
        self.is_unborn = index.is_unborn
        """Whether the log had not given, nor reserved, any id."""
        if self.is_unborn:
            index.next_ledger_id = first
        self._recovered_end = index.next_ledger_id
        index.next_ledger_id = max(self._recovered_end, above + 1)
        self.next = self._began_at = index.next_ledger_id
        """The lowest id that can still be given."""
        self._floor = self.next
        """No lower id is given once this one is reserved."""
        self.reserving = self.next + block
        """Upper bound, exclusive, of the ids whose reservation was asked for; the index has the durable one."""
        self.reserve: Callable[[int], None] = _not_yet
        """Reserves the ids below a bound, later; set before an id is given."""
        self._index = index
        self._earlier = range(0)
        """The ids that earlier runs may have given, as far as the log knows."""
        self._foreign: Sequence[range] = ()
        """Ids among these that it never gave."""
        self._block = self._block_min = block
        """How many ids were reserved last, and at first."""
        self._block_max = max(block, block_max)

    @property
    def passed_over(self) -> range:
        """The ids behind those of the log that the metadata names, though the log cannot have given them."""
        return range(self._recovered_end, self._began_at)

    def belong_to(self, life: Life | None, foreign: Sequence[range]) -> None:
        """Learn the life that the log belongs to, and which ids the log never gave.

        A log without a life may have given any id.
        """
        self._foreign = foreign
        if not self.is_unborn:
            self._earlier = range(1 if life is None else life.first_ledger_id, self._recovered_end)

    def begin_at(self, ledger_id: int) -> None:
        """Give no id below ``ledger_id`` as soon as it is reserved durably.

        Few ids are reserved, as at a start, so that those that a crash skips do not get ahead of the clock.
        """
        if ledger_id > max(self._floor, self.next):
            self._floor, self._block = ledger_id, self._block_min
            self.reserving = max(self.reserving, ledger_id + self._block)
            self.reserve(self.reserving)

    def give(self) -> int:
        """Return the next id, and reserve more when few are left that have been asked for.

        Raises StorageError when ids are asked for faster than they can be reserved durably.
        """
        reserved = self._index.next_ledger_id  # which grows where the index is changed
        if self._floor < reserved:
            self.next = max(self.next, self._floor)
        given = self.next
        if given >= reserved:
            message = f"ledger ids up to {reserved - 1} are used up and no more could be reserved yet"
            raise StorageError(message)
        self.next += 1
        if self.reserving - self.next < self._block:
            self._block = min(2 * self._block, self._block_max)
            self.reserving += self._block
            self.reserve(self.reserving)
        return given

    def has_given(self, ledger_id: int) -> bool:
        """See LedgerStore."""
        if any(ledger_id in each for each in self._foreign):
            return False
        return ledger_id in self._earlier or self._began_at <= ledger_id < self.next


def _not_yet(bound: int) -> None:
    message = f"the store that reserves the ids below {bound} is not open"
    raise AssertionError(message)
