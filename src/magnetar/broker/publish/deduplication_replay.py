"""Replay of the log after the newest snapshot of deduplication.

The last message of a producer determines its sequence id, not the one with the highest number: while deduplication was
off, a producer that was restarted numbered its messages from the start again. Entries of several origins are not in the
order of their producer, so the last message of each origin counts, and of these the highest number.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import DamagedEntriesError
from magnetar.base.position import Position
from magnetar.broker.publish.entry_sequence_ids import completed_by
from magnetar.wire.entries.entry import parse_metadata

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Sequence

    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.publish.sequence_ids import SequenceIds

_REPLAY_ENTRIES = 1000
_REPLAY_BYTES = 5 << 20
"""Bytes of one read during a replay."""


async def replay(topic: LoggedTopic, ids: SequenceIds, after: Position, ignored: Container[str]) -> int:
    """Add the entries after ``after`` to ``ids``, except those of ``ignored`` producers. Raises StorageError.

    Returns the number of all these entries.

    The replay ends at the present end of the log, since later entries are added when they become durable.
    """
    ledger, environment = topic.ledger, topic.environment
    await environment.durable()
    position, through = ledger.next_position(after), ledger.last_confirmed_entry
    last: dict[tuple[str, str], int] = {}
    replayed = 0
    while position <= through:
        entries = ledger.read_cached(position, _REPLAY_ENTRIES, _REPLAY_BYTES)
        if entries is None:
            try:
                entries = await ledger.read(position, _REPLAY_ENTRIES, _REPLAY_BYTES)
            except DamagedEntriesError as error:
                # Damaged entries are never delivered, so their messages may be accepted if they are sent again.
                topic.log.note_damage(error)
                position = ledger.next_position(Position(error.ledger_id, error.end - 1))
                continue
        if not entries:
            break
        await environment.slices.run(_read(last, [entry for _, entry in entries], environment.cluster))
        replayed += len(entries)
        position = ledger.next_position(entries[-1][0])
        await asyncio.sleep(0)  # let other work run
    await environment.slices.run(_add(ids, last, ignored, environment.clock.monotonic()))
    return replayed


def _read(last: dict[tuple[str, str], int], entries: Sequence[bytes], cluster: str) -> Generator[None, None, None]:
    """Note the sequence ids of entries by origin and producer, one in each step: opening a batch takes milliseconds."""
    for entry in entries:
        metadata = parse_metadata(entry)
        is_returned = metadata.replicated_from == cluster
        come = None if is_returned else completed_by(metadata, entry)
        if come is not None:
            name, highest = come
            last[metadata.replicated_from, name] = highest
        yield


def _add(
    ids: SequenceIds, last: dict[tuple[str, str], int], ignored: Container[str], now: float
) -> Generator[None, None, None]:
    for (_, name), highest in last.items():
        if name not in ignored:
            ids.replay(name, highest, now)
        yield
