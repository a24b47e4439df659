"""Opening a log: its recovery, and what has to be known or noted before the first ledger gets an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, ParamSpec

from magnetar.base.errors import StorageError, StorageShortageError
from magnetar.base.life import Life
from magnetar.ledger.segments.record import Kind
from magnetar.ledger.shared_log.ids import LedgerIds
from magnetar.ledger.shared_log.log import without_entries
from magnetar.ledger.shared_log.notes import UNSYNCED_NAME, read_foreign, read_life, write_foreign, write_life

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.ledger.medium.interface import SegmentMedium
    from magnetar.ledger.segments.recovery import Progress
    from magnetar.ledger.shared_log.log import Log
    from magnetar.ledger.shared_log.options import SharedLogOptions

Arguments = ParamSpec("Arguments")


class Opened(NamedTuple):
    """What is known of a log that was opened."""

    ids: LedgerIds
    life: Life | None
    may_lack_entries: bool
    """Whether this run or the last one does not sync its entries."""


async def open_log(log: Log, medium: SegmentMedium, options: SharedLogOptions, progress: Progress) -> Opened:
    """Recover ``log``, note what this run has to note, and reserve the first ids; ``progress`` counts segments.

    Raises as ``Log.open`` does.
    """
    await _in_any_room(medium, log.open, progress)
    ids = LedgerIds(
        log.index,
        options.first_ledger_id,
        options.named_ledger_id,
        options.ledger_id_block,
        options.ledger_id_block_max,
    )
    try:
        life = await _recover_life(medium, ids, options.identity)
        ids.belong_to(life, await _recover_foreign(medium, ids))
        may_lack_entries = await _note_mode(medium, syncs=options.sync)
        await _in_any_room(medium, log.commit_alone, [without_entries(Kind.RESERVE, ids.reserving)])
    except StorageError:
        await log.abandon()
        raise
    await log.remove_dead_segments()
    return Opened(ids, life, may_lack_entries)


async def _in_any_room(
    medium: SegmentMedium,
    function: Callable[Arguments, Awaitable[None]],
    *args: Arguments.args,
    **named: Arguments.kwargs,
) -> None:
    """Do what a start needs, in the room that is held back if there is no other."""
    try:
        await function(*args, **named)
    except StorageShortageError:
        if not medium.give_reserve():
            raise
        await function(*args, **named)


async def _recover_life(medium: SegmentMedium, ids: LedgerIds, identity: str) -> Life | None:
    """Find the life that the log belongs to, or begin it durably, before the first id is given."""
    found = await read_life(medium)
    life = None if ids.is_unborn else found  # the log of a life without an id is gone, and the life with it
    if life is None and identity:
        life = Life(identity, ids.next if ids.is_unborn else 1)
        await write_life(medium, life)
    return life


async def _recover_foreign(medium: SegmentMedium, ids: LedgerIds) -> list[range]:
    """Find the ids that the log never gave, and note new ones durably, before greater ids are reserved."""
    found = await read_foreign(medium)
    if ids.passed_over and not ids.is_unborn and ids.passed_over not in found:
        found.append(ids.passed_over)
        await write_foreign(medium, found)
    return found


async def _note_mode(medium: SegmentMedium, *, syncs: bool) -> bool:
    """Note durably that entries are not synced, before the first one; whether this run or the last one syncs none."""
    found = await medium.note(UNSYNCED_NAME) is not None
    if not found and not syncs:
        await medium.put_note(UNSYNCED_NAME, b"")
    return found or not syncs
