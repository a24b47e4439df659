"""The migration fence of a topic that cannot be loaded, as its list of ledgers has it.

The fence holds all the same: another cluster may serve the clients, and a topic that is created anew would serve them
as well.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.broker.environment import settle
from magnetar.broker.migration_fence.fence import PROPERTY, FenceRefusedError, change_refused
from magnetar.broker.migration_fence.transitions import Fence, reason_against_removal
from magnetar.ledger.ledger_list import listed_property, without_property
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from asyncio import Future

    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment


def check_stored_fence(environment: Environment, name: TopicName) -> None:
    """Raise RequestError with NotAllowedError for a deletion of a fenced topic; see ``MigrationFence.check_change``.

    A fence that cannot be read does not keep an operator from giving up the topic.
    """
    stored = environment.metadata.get(managed_ledger_path(name))
    fence = None if stored is None else _fence_in(stored.value)
    if fence is not None and fence.remaining_s(environment.clock.now()) != 0:
        raise change_refused(name, str(fence))


async def remove_stored_fence(
    environment: Environment, name: TopicName, migration: str, epoch: int, *, is_decision: bool
) -> None:
    """Remove the fence, if there is one; see ``MigrationFence.remove``. Raises FenceRefusedError, StorageError."""
    path = managed_ledger_path(name)
    stored = environment.metadata.get(path)
    fence = None if stored is None else _fence_in(stored.value)
    refusal = reason_against_removal(fence, migration, epoch, is_decision=is_decision)
    if refusal:
        raise FenceRefusedError(refusal)
    if fence is None or stored is None:
        return
    removed: Future[None] = environment.loop.create_future()
    put = Put(path, without_property(stored.value, PROPERTY), stored.version)
    environment.metadata.commit([put], partial(settle, removed))
    await removed


def _fence_in(listed: bytes) -> Fence | None:
    text = listed_property(listed, PROPERTY)
    try:
        return None if text is None else Fence.decode(text)
    except (ValueError, KeyError, TypeError):
        return None
