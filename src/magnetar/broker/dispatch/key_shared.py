"""Key_Shared: messages of one key go to one consumer, in order (protocol: Key_Shared).

The order of a key is that of its hash. A selector says whom a hash belongs to; when that changes because a consumer
comes or goes, the hash *drains*: nothing of it is sent to its new consumer before the old one has acknowledged, or
given back, what it holds of it (PIP-379).

What cannot be sent waits, and so does everything of its hash that comes behind it, while reading goes on for others, up
to a limit. So a slow consumer holds up its own keys, and others only when so many of its messages wait.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.position import Position
from magnetar.broker.dispatch.hashed_entries import HashedEntries, WaitingEntries
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


class DrainingHash(NamedTuple):
    """A hash that belongs to another consumer than the one that still holds messages of it."""

    sticky_hash: int
    unacked: int
    """Entries that its old consumer holds."""
    blocked_attempts: int
    """How often an entry could not be sent because of them."""


class DrainingTotals(NamedTuple):
    """What is draining of a whole subscription."""

    hashes: int
    unacked: int
    """Entries that the old consumers of these hashes hold."""
    cleared: int
    """Hashes of the connected consumers that have been draining, and are not any more."""


class KeySharedDispatcher(MultipleConsumersDispatcher[WaitingEntries["Consumer"]]):
    """To each consumer what is of its hashes, as far as it has permits."""

    def __init__(self, unread: DispatchedEntries, policy: KeySharedPolicy) -> None:
        """No consumer yet."""
        self.policy = policy
        self._selector = _selector(policy, unread.environment.config)
        self._in_order = not policy.allow_out_of_order_delivery
        self._held = HashedEntries()
        """What consumers hold, and it alone."""
        self._holders: dict[int, Consumer] = {}
        """Of each hash of which something is held, who holds it all. Empty where order does not matter."""
        self._draining: dict[int, int] = {}
        """The hashes that do not belong to their holders, each with the number of blocked attempts."""
        self._drained: dict[Consumer, int] = {}
        """How many hashes of a consumer have been draining, and are not any more."""
        self._turn = 0
        self._is_looking_ahead = True
        """Whether no more entries wait than may, so that reading goes on."""
        super().__init__(unread, WaitingEntries(self._selector.select, self._is_draining))

    def rivals(self, options: ConsumerOptions) -> list[Consumer]:
        """Who has hash ranges that are asked for."""
        return self._selector.rivals(options)

    def check_can_add(self, options: ConsumerOptions) -> None:
        """All consumers have one policy, and no hash has two of them."""
        if options.key_shared_policy != self.policy:
            raise RequestError(ServerError.ConsumerBusy, _difference(self.policy, options.key_shared_policy))
        self._selector.check(options)

    def suits(self, consumer: Consumer) -> bool:
        """Only one of its policy."""
        return consumer.key_shared_policy == self.policy

    def add(self, consumer: Consumer) -> None:
        """It gets its share of the hashes; what others hold of them drains."""
        super().add(consumer)
        self._selector.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Its hashes go to others, and so does what it held."""
        self._selector.remove(consumer)
        self._replay.left(consumer)
        super().remove(consumer)
        self._drained.pop(consumer, None)

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Forget what was acknowledged, whoever holds it or was to get it."""
        super().entries_deleted(ranges, by)
        self._replay.discard(ranges)
        self._release(self._held.discard(ranges))

    # -- telling --------------------------------------------------------------------------------------------------

    def hash_ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Which hashes belong to each consumer: ranges, each with both its ends."""
        return self._selector.ranges()

    def draining(self) -> dict[Consumer, list[DrainingHash]]:
        """The hashes of which a consumer holds messages, and that belong to others: of each consumer that has any."""
        self._reassign()
        found: dict[Consumer, list[DrainingHash]] = {}
        for sticky_hash, attempts in sorted(self._draining.items()):
            draining = DrainingHash(sticky_hash, self._held.count(sticky_hash), attempts)
            found.setdefault(self._holders[sticky_hash], []).append(draining)
        return found

    def draining_totals(self) -> DrainingTotals:
        """The sums of what ``draining`` and ``drained`` tell of each consumer."""
        self._reassign()
        unacked = sum(map(self._held.count, self._draining))
        return DrainingTotals(len(self._draining), unacked, sum(self._drained.values()))

    def drained(self, consumer: Consumer) -> int:
        """How many hashes of a consumer have been draining, and are not any more."""
        self._reassign()
        return self._drained.get(consumer, 0)

    # -- sending --------------------------------------------------------------------------------------------------

    def _dispatch_read(self, limit: int) -> bool:
        self._reassign()
        if self._dispatch_waiting(limit):
            return True
        look_ahead_max, reason = _look_ahead_max(self._config, len(self.consumers))
        room = min(limit, look_ahead_max - self._waiting())
        if room <= 0:
            if self._is_looking_ahead:
                self._unread.environment.limit_hits.hit(reason)
            self._is_looking_ahead = False
            return False
        self._is_looking_ahead = True
        entries = self._delayed.due(self._read_position, self._limit_of_due(room)) or self._next_new(room)
        if entries:
            self._deliver(entries)
        return bool(entries)

    def _waiting(self) -> int:
        """How many entries wait, of those that may be sent now.

        While acknowledgements are at their limit, those behind the last acknowledged entry may not. They must not keep
        the entries from being read whose acknowledgements end that.
        """
        if not self._unread.is_paused:
            return len(self._replay)
        through = self._unread.readable_through()
        return sum([position <= through for position in self._replay])

    def _dispatch_waiting(self, limit: int) -> bool:
        """Send what waits for one consumer that is ready, so that each has its turn; whether there was anything."""
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
        """Take what waits for a consumer, as far as one read reaches and it has room."""
        unread = self._unread
        taken = self._replay.take(consumer, unread.readable_through(), min(limit, self._room(consumer)))
        wanted = {position: its_hash for position, its_hash in taken if not unread.is_finished(position)}
        if not wanted:
            return []
        ledger_id = next(iter(wanted)).ledger_id
        near = [position.entry_id for position in wanted if position.ledger_id == ledger_id]
        entries = self._reader.read_ranges(ranges_of(ledger_id, near), limit) or []
        for position in wanted.keys() - {position for position, _ in entries}:
            self._replay.push(position, wanted[position])
        return entries

    def _deliver(self, entries: list[tuple[Position, bytes]], *, again: bool = False) -> None:
        """Send the entries of one read, which are of one ledger, to whom they belong; what cannot be sent waits.

        Those that are sent ``again`` were the first to wait; others have to wait behind those that do.
        """
        now = self._unread.environment.clock.now()
        ledger_id = entries[0][0].ledger_id
        heads = [wire_entry.messages_delivery_and_key(entry) for _, entry in entries]
        hash_of = self._selector.hash_of
        hashes = {position.entry_id: hash_of(key) for (position, _), (_, _, key) in zip(entries, heads, strict=True)}
        runs: dict[Consumer, list[Delivery]] = {}
        rooms: dict[Consumer, int] = {}
        left = self._room_in_all()
        for delivery in self._due(entries, [(messages, at_ms) for messages, at_ms, _ in heads], now):
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
        for consumer, run in runs.items():
            self._send(consumer, ledger_id, run, now)
            self._hold(consumer, ledger_id, [(delivery.entry_id, hashes[delivery.entry_id]) for delivery in run])

    def _consumer_for(self, sticky_hash: int, *, again: bool) -> Consumer | None:
        """Who is sent an entry of a hash; None: it has to wait."""
        if self._in_order and (self._is_draining(sticky_hash) or (not again and self._replay.has(sticky_hash))):
            return None
        return self._selector.select(sticky_hash)

    def _is_draining(self, sticky_hash: int) -> bool:
        """Whether an entry of a hash, which could be sent otherwise, is blocked by what its old consumer holds."""
        if sticky_hash not in self._draining:
            return False
        self._draining[sticky_hash] += 1
        return True

    # -- who holds what -------------------------------------------------------------------------------------------

    def _hold(self, consumer: Consumer, ledger_id: int, hashes: list[tuple[int, int]]) -> None:
        """Entries of a ledger were sent, each with its hash."""
        self._held.add(ledger_id, hashes)
        if self._in_order:
            self._holders.update(dict.fromkeys([sticky_hash for _, sticky_hash in hashes], consumer))

    def _give_back(self, position: Position) -> None:
        sticky_hash = self._held.pop(position)
        self._replay.push(position, sticky_hash)
        self._release([sticky_hash])

    def _release(self, hashes: Iterable[int]) -> None:
        """Entries of these hashes are not held any more."""
        for sticky_hash in hashes:
            if self._held.count(sticky_hash) or sticky_hash not in self._holders:
                continue
            holder = self._holders.pop(sticky_hash)
            if self._draining.pop(sticky_hash, None) is not None:
                if holder in self.consumers:
                    self._drained[holder] = self._drained.get(holder, 0) + 1
                self._replay.unblocked(sticky_hash)

    def _reassign(self) -> None:
        """Find out whose hashes are whose now, once for all consumers that came or left since the last time.

        Only hashes are looked at whose owner changed: with n consumers, one of n when one comes or leaves.
        """
        if not self._selector.has_changes:
            return
        changes = self._selector.take_changes()
        if sum([last - first + 1 for first, last in changes]) < RANGE_SIZE:
            for first, last in changes:
                hashes = range(first, last + 1)
                self._look_at(hashes)
                self._replay.reassign(hashes)
        else:
            self._look_at(tuple(self._holders))
            self._replay.reassign_all()

    def _look_at(self, hashes: Iterable[int]) -> None:
        """Note which of these hashes drain now, and which do not any more."""
        holders, draining, select = self._holders, self._draining, self._selector.select
        for sticky_hash in hashes:
            holder = holders.get(sticky_hash)
            if holder is None:
                continue
            if select(sticky_hash) is not holder:
                draining.setdefault(sticky_hash, 0)
            elif draining.pop(sticky_hash, None) is not None:
                self._drained[holder] = self._drained.get(holder, 0) + 1


def _selector(policy: KeySharedPolicy, config: BrokerConfig) -> Selector[Consumer]:
    if policy.mode == pb.STICKY:
        return HashRangeExclusiveSelector()
    if config.subscriptionKeySharedUseConsistentHashing:
        return ConsistentHashingSelector(config.subscriptionKeySharedConsistentHashingReplicaPoints)
    return HashRangeAutoSplitSelector()


def _look_ahead_max(config: BrokerConfig, consumers: int) -> tuple[int, Limit]:
    """How many entries may wait before reading stops, as Pulsar counts it, and the limit that says so."""
    of_consumers = config.keySharedLookAheadMsgInReplayThresholdPerConsumer * consumers
    of_subscription = config.keySharedLookAheadMsgInReplayThresholdPerSubscription
    if not of_consumers and not of_subscription:
        of_consumers = config.maxUnackedMessagesPerConsumer * consumers
        of_subscription = config.maxUnackedMessagesPerSubscription
    if of_consumers and of_consumers <= (of_subscription or sys.maxsize):
        return of_consumers, Limit.LOOK_AHEAD_PER_CONSUMER
    return of_subscription or sys.maxsize, Limit.LOOK_AHEAD_PER_SUBSCRIPTION


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
