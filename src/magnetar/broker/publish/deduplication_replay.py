"""Replay of the log after the newest snapshot of deduplication."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import DamagedEntriesError
from magnetar.base.position import Position
from magnetar.broker.publish.entry_sequence_ids import completed_by
from magnetar.wire.entries.entry import parse_metadata

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from magnetar.broker.environment import Environment
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.publish.sequence_ids import SequenceIds

_REPLAY_ENTRIES = 1000
_REPLAY_BYTES = 5 << 20
"""Bytes of one read during a replay."""


async def replay(topic: LoggedTopic, ids: SequenceIds, after: Position) -> int:
    """Add the entries after ``after`` to ``ids``; return their number. Raises StorageError.

    The replay ends at the present end of the log, since later entries are added when they become durable.
    """
    ledger, environment = topic.ledger, topic.environment
    await environment.durable()
    position, through = ledger.next_position(after), ledger.last_confirmed_entry
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
        await environment.slices.run(_add(ids, [entry for _, entry in entries], environment))
        replayed += len(entries)
        position = ledger.next_position(entries[-1][0])
        await asyncio.sleep(0)  # let other work run
    return replayed


def _add(ids: SequenceIds, entries: Sequence[bytes], environment: Environment) -> Generator[None, None, None]:
    """Add entries to ``ids``, one in each step: to open a batch may take milliseconds."""
    now = environment.clock.monotonic()
    for entry in entries:
        metadata = parse_metadata(entry)
        is_returned = metadata.replicated_from == environment.cluster
        come = None if is_returned else completed_by(metadata, entry)
        if come is not None:
            ids.replay(*come, now)
        yield
