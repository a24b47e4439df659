"""Key_Shared: messages of one key go to one consumer, in order (protocol: Key_Shared).

Order is kept for each hash of a key. A selector assigns hashes to consumers. When the consumer of a hash changes, the
hash *drains*: its new consumer gets nothing before the old one has acknowledged or returned its entries of the hash
(PIP-379).

A hash does not change its consumer in the middle of a chunked message (PIP-37), which nobody could put together then.

An entry that cannot be sent waits, and so do all later entries of its hash. Reading continues for other hashes, up to a
limit. So a slow consumer delays its own keys, and other keys only when too many of its messages wait.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.position import Position
from magnetar.broker.dispatch.base import Consumers, LookAhead
from magnetar.broker.dispatch.hashed_entries import HashedEntries, UnfinishedMessages, WaitingEntries
from magnetar.broker.dispatch.multiple_consumers import MultipleConsumersDispatcher
from magnetar.broker.dispatch.selectors import (
    RANGE_SIZE,
    ConsistentHashingSelector,
    HashRangeAutoSplitSelector,
    HashRangeExclusiveSelector,
)
from magnetar.cursor.ranges import ranges_of
from magnetar.wire.entries import entry as wire_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions, Delivery, KeySharedPolicy
    from magnetar.broker.dispatch.interfaces import DispatchedEntries
    from magnetar.broker.dispatch.selectors import Selector
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.cursor.ranges import Range
    from magnetar.metadata.effective import EffectivePolicies


class DrainingHash(NamedTuple):
    """A hash that has a new owner while another consumer still holds entries of it."""

    sticky_hash: int
    unacked: int
    """Number of entries that its old consumer holds."""
    blocked_attempts: int
    """Number of entries that could not be sent because of them."""


class DrainingTotals(NamedTuple):
    """Sums over the draining hashes of a subscription."""

    hashes: int
    unacked: int
    """Number of entries that the old consumers of these hashes hold."""
    cleared: int
    """Number of hashes of the connected consumers that have finished draining."""


class HashOwners(Consumers):
    """The consumers of a Key_Shared subscription, which own the hashes of keys."""

    policy: KeySharedPolicy
    _selector: Selector[Consumer]

    def hash_ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Return the hash ranges of each consumer, with inclusive bounds."""
        return self._selector.ranges()

    def conflicting(self, options: ConsumerOptions) -> list[Consumer]:
        """Return the consumers that own requested hash ranges."""
        return self._selector.conflicting(options)

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if the policy differs from the others', or a hash has an owner."""
        _check_policy(self.policy, options.key_shared_policy)
        self._selector.check(options)

    def accepts(self, consumer: Consumer) -> bool:
        """Return whether the consumer has this dispatcher's policy."""
        return consumer.key_shared_policy == self.policy


class KeySharedDispatcher(HashOwners, MultipleConsumersDispatcher[WaitingEntries["Consumer"]]):
    """Sends each consumer the entries of its hashes, as its permits allow."""

    def __init__(self, unread: DispatchedEntries, policy: KeySharedPolicy) -> None:
        """Create a dispatcher without consumers."""
        self.policy = policy
        self._selector = selector_for(policy, unread.environment.config)
        self._in_order = not policy.allow_out_of_order_delivery
        self._held = HashedEntries()
        """Entries held by the consumers, except those that are returning."""
        self._holders: dict[int, Consumer] = {}
        """The consumer that holds all sent entries of a hash. Empty if order does not matter."""
        self._unfinished: UnfinishedMessages[Consumer] = UnfinishedMessages()
        self._draining: dict[int, int] = {}
        """Hashes held by a consumer that is not their owner, with the number of blocked attempts."""
        self._drained: dict[Consumer, int] = {}
        """Number of hashes of each consumer that have finished draining."""
        self._turn = 0
        self._look_ahead = LookAhead(unread.environment.limit_hits)
        super().__init__(unread, WaitingEntries(self._owner, self._is_draining))

    def add(self, consumer: Consumer) -> None:
        """Assign hashes to a consumer; the hashes that others still hold drain."""
        super().add(consumer)
        self._selector.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Assign its hashes and its unacknowledged entries to others."""
        self._selector.remove(consumer)
        self._replay.left(consumer)
        super().remove(consumer)
        self._drained.pop(consumer, None)

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Remove acknowledged entries, held or waiting."""
        super().entries_deleted(ranges, by)
        self._replay.discard(ranges)
        self._release(self._held.discard(ranges))
        if self._unfinished:
            self._let_go(self._unfinished.deleted(ranges))

    # -- statistics ---------------------------------------------------------------------------------------------------

    def draining(self) -> dict[Consumer, list[DrainingHash]]:
        """Return, by consumer, the hashes that it still holds and that have another owner."""
        self._reassign()
        found: dict[Consumer, list[DrainingHash]] = {}
        for sticky_hash, attempts in sorted(self._draining.items()):
            draining = DrainingHash(sticky_hash, self._held.count(sticky_hash), attempts)
            found.setdefault(self._holders[sticky_hash], []).append(draining)
        return found

    def draining_totals(self) -> DrainingTotals:
        """Return the sums of ``draining`` and ``drained`` over all consumers."""
        self._reassign()
        unacked = sum(map(self._held.count, self._draining))
        return DrainingTotals(len(self._draining), unacked, sum(self._drained.values()))

    def drained(self, consumer: Consumer) -> int:
        """Return the number of hashes of a consumer that have finished draining."""
        self._reassign()
        return self._drained.get(consumer, 0)

    # -- sending --------------------------------------------------------------------------------------------------

    def _dispatch_read(self, limit: int) -> bool:
        self._reassign()
        if self._dispatch_waiting(limit):
            return True
        look_ahead_max, reason = _look_ahead_max(self._config, self._unread.topic.policies, len(self.consumers))
        room = min(limit, look_ahead_max - self._waiting())
        if not self._look_ahead.has(room, reason):
            return False
        if entries := self._delayed.due(self._read_position, self._limit_of_due(room)):
            self._deliver(entries, are_due=True)
        elif entries := self._next_new(room):
            self._deliver(entries)
        return bool(entries)

    def _waiting(self) -> int:
        """Return the number of waiting entries that may be sent now.

        While acknowledgements are at their limit of holes, entries after the last acknowledged one may not be sent.
        They must not stop the reading of entries whose acknowledgements fill the holes.
        """
        if not self._unread.is_paused:
            return len(self._replay)
        through = self._unread.readable_through()
        return sum([position <= through for position in self._replay])

    def _dispatch_waiting(self, limit: int) -> bool:
        """Send waiting entries to one ready consumer, in turn; return whether there were any."""
        if not self._replay:
            return False
        ready = [consumer for consumer in self._replay.waited_for() if consumer.is_ready]
        first = self._turn % len(ready) if ready else 0
        for consumer in ready[first:] + ready[:first]:
            if entries := self._next_waiting(consumer, limit):
                self._turn += 1
                self._deliver(entries, again=True)
                return True
        return False

    def _next_waiting(self, consumer: Consumer, limit: int) -> list[tuple[Position, bytes]]:
        """Remove the waiting entries of a consumer, as many as one read and its permits allow."""
        unread, wanted = self._unread, dict[Position, int]()
        through, room = unread.readable_through(), min(limit, self._sizes.entries_for(self._room(consumer)))
        while not wanted and (taken := self._replay.take(consumer, through, room)):
            wanted = {position: its_hash for position, its_hash in taken if not unread.is_finished(position)}
        if not wanted:
            return []
        ledger_id = next(iter(wanted)).ledger_id
        near = [position.entry_id for position in wanted if position.ledger_id == ledger_id]
        entries = self._reader.read_ranges(ranges_of(ledger_id, near), limit) or []
        for position in wanted.keys() - {position for position, _ in entries}:
            self._replay.push(position, wanted[position])
        return entries

    def _deliver(self, entries: list[tuple[Position, bytes]], *, again: bool = False, are_due: bool = False) -> None:
        """Send the entries of one read, all of one ledger, to their consumers; entries that cannot be sent wait.

        Entries sent ``again`` were first in their queues; others wait if earlier entries of their hash wait. Delayed
        chunks follow the entries that ``are_due``.
        """
        now = self._unread.environment.clock.now()
        ledger_id = entries[0][0].ledger_id
        heads = [wire_entry.messages_delivery_and_key(entry) for _, entry in entries]
        hash_of = self._selector.hash_of
        hashes = {position.entry_id: hash_of(key) for (position, _), (_, _, key, _) in zip(entries, heads, strict=True)}
        chunks = {at.entry_id: head[3] for (at, _), head in zip(entries, heads, strict=True) if head[3] is not None}
        runs: dict[Consumer, list[Delivery]] = {}
        rooms: dict[Consumer, int] = {}
        left = self._room_in_all()
        for delivery in self._due(entries, heads, now, () if are_due else chunks):
            sticky_hash = hashes[delivery.entry_id]
            consumer = self._consumer_for(sticky_hash, again=again)
            if consumer is not None and consumer not in rooms:
                rooms[consumer] = self._room(consumer) if consumer.is_ready else 0
            if consumer is None or rooms[consumer] <= 0 or left <= 0:
                self._replay.push(Position(ledger_id, delivery.entry_id), sticky_hash)
                continue
            rooms[consumer] -= delivery.messages
            left -= delivery.messages
            runs.setdefault(consumer, []).append(delivery)
            if (chunk := chunks.get(delivery.entry_id)) is not None:
                position = Position(ledger_id, delivery.entry_id)
                self._let_go(self._unfinished.sent(consumer, position, sticky_hash, chunk))
        for consumer, run in runs.items():
            self._send(consumer, ledger_id, run, now)
            self._hold(consumer, ledger_id, [(delivery.entry_id, hashes[delivery.entry_id]) for delivery in run])

    def _consumer_for(self, sticky_hash: int, *, again: bool) -> Consumer | None:
        """Return the consumer of an entry with this hash; None if the entry has to wait."""
        if self._in_order and (self._is_draining(sticky_hash) or (not again and self._replay.has(sticky_hash))):
            return None
        return self._owner(sticky_hash)

    def _owner(self, sticky_hash: int) -> Consumer | None:
        """Return the consumer of a hash; None if it has none."""
        if self._unfinished:
            keeper = self._unfinished.keeper(sticky_hash)
            if keeper in self.consumers:
                return keeper
        return self._selector.select(sticky_hash)

    def _let_go(self, hashes: Sequence[int]) -> None:
        """Assign hashes, which a consumer kept because of unfinished messages, to their owners."""
        self._update_draining(hashes)
        self._replay.reassign(hashes)

    def _is_draining(self, sticky_hash: int) -> bool:
        """Return whether an entry of a hash, which could be sent otherwise, is blocked by its old consumer."""
        if sticky_hash not in self._draining:
            return False
        self._draining[sticky_hash] += 1
        return True

    # -- held entries -------------------------------------------------------------------------------------------------

    def _hold(self, consumer: Consumer, ledger_id: int, hashes: list[tuple[int, int]]) -> None:
        """Record that entries of a ledger were sent, each with its hash."""
        self._held.add(ledger_id, hashes)
        if self._in_order:
            self._holders.update(dict.fromkeys([sticky_hash for _, sticky_hash in hashes], consumer))

    def _give_back(self, position: Position) -> None:
        sticky_hash = self._held.pop(position)
        self._replay.push(position, sticky_hash)
        self._release([sticky_hash])
        if self._unfinished:
            self._let_go(self._unfinished.given_back(position))

    def _release(self, hashes: Iterable[int]) -> None:
        """Record that entries of these hashes are no longer held."""
        for sticky_hash in hashes:
            if self._held.count(sticky_hash) or sticky_hash not in self._holders:
                continue
            holder = self._holders.pop(sticky_hash)
            if self._draining.pop(sticky_hash, None) is not None:
                if holder in self.consumers:
                    self._drained[holder] = self._drained.get(holder, 0) + 1
                self._replay.unblocked(sticky_hash)

    def _reassign(self) -> None:
        """Update the owners of hashes, once for all consumers that were added or removed since the last call.

        Only hashes whose owner changed are examined: about 1/n of them for each change, with n consumers.
        """
        if not self._selector.has_changes:
            return
        changes = self._selector.take_changes()
        if sum([last - first + 1 for first, last in changes]) < RANGE_SIZE:
            for first, last in changes:
                hashes = range(first, last + 1)
                self._update_draining(hashes)
                self._replay.reassign(hashes)
        else:
            self._update_draining(tuple(self._holders))
            self._replay.reassign_all()

    def _update_draining(self, hashes: Iterable[int]) -> None:
        """Update the state of these hashes: draining or not."""
        holders, draining, owner = self._holders, self._draining, self._owner
        for sticky_hash in hashes:
            holder = holders.get(sticky_hash)
            if holder is None:
                continue
            if owner(sticky_hash) is not holder:
                draining.setdefault(sticky_hash, 0)
            elif draining.pop(sticky_hash, None) is not None:
                self._drained[holder] = self._drained.get(holder, 0) + 1


def selector_for(policy: KeySharedPolicy, config: BrokerConfig) -> Selector[Consumer]:
    """Return the selector for a policy and the settings of the broker."""
    if policy.mode == pb.STICKY:
        return HashRangeExclusiveSelector()
    if config.subscriptionKeySharedUseConsistentHashing:
        return ConsistentHashingSelector(config.subscriptionKeySharedConsistentHashingReplicaPoints)
    return HashRangeAutoSplitSelector()


def _look_ahead_max(config: BrokerConfig, policies: EffectivePolicies, consumers: int) -> tuple[int, Limit]:
    """Return the maximum number of waiting entries, as Pulsar computes it, and the limit that sets it."""
    of_consumers = config.keySharedLookAheadMsgInReplayThresholdPerConsumer * consumers
    of_subscription = config.keySharedLookAheadMsgInReplayThresholdPerSubscription
    if not of_consumers and not of_subscription:
        of_consumers = policies.max_unacked_per_consumer * consumers
        of_subscription = policies.max_unacked_per_subscription
    if of_consumers and of_consumers <= (of_subscription or sys.maxsize):
        return of_consumers, Limit.LOOK_AHEAD_PER_CONSUMER
    return of_subscription or sys.maxsize, Limit.LOOK_AHEAD_PER_SUBSCRIPTION


def _check_policy(policy: KeySharedPolicy, wanted: KeySharedPolicy) -> None:
    """Raise RequestError if a consumer requests another policy than the connected ones."""
    if wanted != policy:
        raise RequestError(ServerError.ConsumerBusy, _difference(policy, wanted))


def _difference(policy: KeySharedPolicy, wanted: KeySharedPolicy) -> str:
    if policy.mode != wanted.mode:
        return (
            f"Subscription is of different type. Active subscription key_shared mode of '{policy.mode_name}' is "
            f"different than the connecting consumer's key_shared mode '{wanted.mode_name}'."
        )
    allows = "allows" if policy.allow_out_of_order_delivery else "does not allow"
    consumer = "does not allow" if policy.allow_out_of_order_delivery else "allows"
    return (
        f"Subscription is of different type. Active subscription {allows} out of order delivery while the connecting "
        f"consumer {consumer} it."
    )
