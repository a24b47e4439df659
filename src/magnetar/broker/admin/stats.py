"""Statistics of topics, in the models of the admin API."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from magnetar.admin.models.clients import ConsumerStats, DrainingHash, PublisherStats
from magnetar.admin.models.model import iso_time
from magnetar.admin.models.subscriptions import AckHole, SubscriptionStats
from magnetar.admin.models.topics import ReplicatorStats, TopicStats
from magnetar.broker.admin.fences.report import shown_fence
from magnetar.broker.dispatch.key_shared import KeySharedDispatcher
from magnetar.broker.dispatch.multiple_consumers import MultipleConsumersDispatcher
from magnetar.broker.dispatch.single_active import SingleActiveDispatcher
from magnetar.broker.loop.slices import at_once
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from magnetar.admin.topic_service import StatsOptions
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.dispatch.key_shared import DrainingHash as Draining
    from magnetar.broker.publish.client_producer import ClientProducer
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.subscription.ack_state import AckState
    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.geo.progress.confirmations import Unconfirmed

Number = TypeVar("Number", int, float)
Publisher = TypeVar("Publisher", bound=PublisherStats)


class _LogSize(NamedTuple):
    """Size of the log of a topic."""

    entries: int
    size_bytes: int


_SUMMED = attrgetter(
    *("msg_rate_out", "msg_throughput_out", "bytes_out_counter", "msg_out_counter"),
    *("non_contiguous_deleted_messages_ranges", "non_contiguous_deleted_messages_ranges_serialized_size"),
)
"""Figures of a topic that are sums over its subscriptions."""

_NONE = (0,) * 6
"""Their values without subscriptions."""


def topic_stats(topic: Topic, options: StatsOptions) -> TopicStats:
    """Return the statistics of a topic, without reading its log."""
    return at_once(topic_stats_steps(topic, options))


def topic_stats_steps(topic: Topic, options: StatsOptions) -> Generator[None, None, TopicStats]:
    """Compute ``topic_stats`` in steps, one for each subscription, consumer or producer.

    Other work may run between the steps. Each step returns the values of its time.
    """
    subscriptions: dict[str, SubscriptionStats] = {}
    log = _LogSize(topic.ledger.entries, topic.ledger.size_bytes)
    removed = topic.sent_to_removed
    messages_before, bytes_before = removed.messages, removed.bytes  # one that is removed meanwhile counts once
    for name, subscription in sorted(topic.subscriptions.items()):
        if subscriptions:
            yield
        subscriptions[name] = yield from _subscription_stats(topic, subscription, log, options)
    locals_ = tuple(topic.producers.clients())
    publishers: list[PublisherStats] = []
    for producer in () if options.exclude_publishers else locals_:
        yield
        publishers.append(publisher_stats(producer, PublisherStats()))
    stats = _topic_stats(topic, subscriptions, publishers, log)
    stats.publishers_count = len(locals_)
    stats.msg_out_counter += messages_before
    stats.bytes_out_counter += bytes_before
    return stats


def _topic_stats(
    topic: Topic, subscriptions: dict[str, SubscriptionStats], publishers: list[PublisherStats], log: _LogSize
) -> TopicStats:
    sequence_ids = topic.deduplication.sequence_ids
    rate_in, throughput_in = topic.arrivals.rates.per_second
    of_each = map(_SUMMED, subscriptions.values())
    rate_out, throughput_out, bytes_out, messages_out, ranges, ranges_size = map(sum, zip(_NONE, *of_each, strict=True))
    return TopicStats(
        msg_rate_in=rate_in,
        msg_throughput_in=throughput_in,
        average_msg_size=throughput_in / rate_in if rate_in else 0.0,
        msg_rate_out=rate_out,
        msg_throughput_out=throughput_out,
        bytes_in_counter=topic.arrivals.bytes_in,
        msg_in_counter=topic.arrivals.messages_in,
        bytes_out_counter=bytes_out,
        msg_out_counter=messages_out,
        storage_size=log.size_bytes,
        damaged_entries=topic.log.damaged.entries or None,
        backlog_size=max([stats.backlog_size for stats in subscriptions.values()], default=0),
        backlog_quota_limit_size=topic.policies.backlog_quotas["destination_storage"].limitSize,
        backlog_quota_limit_time=topic.policies.backlog_quotas["message_age"].limitTime,
        oldest_backlog_message_age_seconds=int(topic.backlog_quotas.oldest_age_s),
        publish_rate_limited_times=topic.rates.publish_limited,
        publishers=publishers,
        waiting_publishers=len(topic.producers.access.waiting),
        at_risk_messages=topic.lag_limit.at_risk,
        withheld_receipts=topic.lag_limit.withheld if topic.lag_limit.gate is not None else None,
        publishing_throttled=topic.lag_limit.reason,
        migration_fence=shown_fence(topic.log.migration_fence),
        clusters_not_counted=topic.lag_limit.not_counted or None,
        subscriptions=subscriptions,
        replication={
            remote: _replicator_stats(topic, remote)
            for remote in sorted({*topic.replicators, *topic.producers.sources})
        },
        deduplication_status=topic.deduplication.status.value,
        deduplicated_entries=topic.deduplication.duplicates if sequence_ids is not None else None,
        deduplication_producers=len(sequence_ids) if sequence_ids is not None else None,
        topic_epoch=topic.producers.access.topic_epoch,
        delayed_message_index_size_in_bytes=topic.delayed.size_bytes,
        non_contiguous_deleted_messages_ranges=ranges,
        non_contiguous_deleted_messages_ranges_serialized_size=ranges_size,
        replicated_subscription_snapshots=topic.snapshots.stats() if topic.snapshots is not None else None,
        owner_broker=topic.environment.config.advertisedAddress,
        log=topic.ledger.statistics,
    )


def publisher_stats(producer: ClientProducer, stats: Publisher) -> Publisher:
    """Fill the statistics of a producer."""
    rate, throughput = producer.rates.per_second
    stats.msg_rate_in = rate
    stats.msg_throughput_in = throughput
    stats.average_msg_size = throughput / rate if rate else 0.0
    stats.access_mode = pb.ProducerAccessMode.Name(pb.ProducerAccessMode.ValueType(producer.options.access_mode))
    stats.producer_id = producer.options.producer_id
    stats.producer_name = producer.options.name
    stats.address = producer.session.address
    stats.connected_since = iso_time(producer.connected_at * 1000)
    stats.client_version = producer.session.client_version
    stats.metadata = producer.options.metadata
    return stats


def consumer_stats(consumer: Consumer) -> ConsumerStats:
    """Return the statistics of a consumer."""
    rate, throughput, acked, redelivered = consumer.rates.per_second
    return ConsumerStats(
        msg_rate_out=rate,
        msg_throughput_out=throughput,
        msg_rate_redeliver=redelivered,
        message_ack_rate=acked,
        avg_messages_per_entry=round(consumer.messages_per_entry),
        bytes_out_counter=consumer.bytes_sent,
        msg_out_counter=consumer.messages_sent,
        consumer_name=consumer.name,
        consumer_id=consumer.consumer_id,
        available_permits=consumer.permits,
        unacked_messages=consumer.unacked_messages,
        blocked_consumer_on_unacked_msgs=consumer.blocked,
        address=consumer.session.address,
        connected_since=iso_time(consumer.connected_at * 1000),
        client_version=consumer.session.client_version,
        last_acked_timestamp=int(consumer.last_acked_at * 1000),
        last_consumed_timestamp=int(consumer.last_sent_at * 1000),
        last_consumed_flow_timestamp=int(consumer.last_flow_at * 1000),
        metadata=consumer.metadata,
    )


def _consumers_in_steps(subscription: Subscription) -> Generator[None, None, list[ConsumerStats]]:
    dispatcher = subscription.consumers.dispatcher
    key_shared = dispatcher if isinstance(dispatcher, KeySharedDispatcher) else None
    ranges = key_shared.hash_ranges() if key_shared is not None else {}
    draining = key_shared.draining() if key_shared is not None else {}
    found: list[ConsumerStats] = []
    for consumer in tuple(subscription.consumers):
        stats = consumer_stats(consumer)
        if key_shared is not None:
            _fill_hashes(stats, draining.get(consumer, []), ranges.get(consumer, ()))
            stats.draining_hashes_cleared_total = key_shared.drained(consumer)
        found.append(stats)
        yield
    return found


def _fill_hashes(stats: ConsumerStats, draining: list[Draining], ranges: Iterable[tuple[int, int]]) -> None:
    stats.draining_hashes = [
        DrainingHash(hash=each.sticky_hash, unack_msgs=each.unacked, blocked_attempts=each.blocked_attempts)
        for each in draining
    ]
    stats.draining_hashes_count = len(draining)
    stats.draining_hashes_unacked_messages = sum(each.unacked for each in draining)
    stats.key_hash_range_arrays = [list(ends) for ends in ranges]


def _subscription_stats(
    topic: Topic, subscription: Subscription, log: _LogSize, options: StatsOptions
) -> Generator[None, None, SubscriptionStats]:
    each = [] if options.exclude_consumers else (yield from _consumers_in_steps(subscription))
    state, ack_state = subscription.cursor.state, subscription.ack_state
    backlog = subscription.backlog
    consumers = subscription.consumers
    dispatcher = subscription.consumers.dispatcher
    shared = dispatcher if isinstance(dispatcher, MultipleConsumersDispatcher) else None
    is_active = isinstance(dispatcher, SingleActiveDispatcher) and dispatcher.active is not None
    delayed = 0 if is_active else subscription.delayed
    of_consumers = consumers.summary()
    rate, throughput, acked, redelivered, expired = subscription.rates.per_second
    stats = SubscriptionStats(
        msg_rate_out=rate,
        msg_throughput_out=throughput,
        msg_rate_redeliver=redelivered,
        message_ack_rate=acked,
        msg_rate_expired=expired,
        bytes_out_counter=of_consumers.bytes_sent,
        msg_out_counter=of_consumers.messages_sent,
        msg_backlog=backlog,
        # Entries of a topic are assumed to have equal sizes; an exact value would require reading the backlog.
        backlog_size=log.size_bytes * backlog // log.entries if log.entries else 0,
        msg_backlog_no_delayed=backlog - delayed,
        blocked_subscription_on_unacked_msgs=shared.is_blocked if shared else False,
        msg_delayed=delayed,
        msg_in_replay=shared.replay_count if shared else 0,
        unacked_messages=of_consumers.unacked_messages,
        total_msg_expired=subscription.expired,
        last_expire_timestamp=int(subscription.last_expired_at * 1000),
        last_consumed_flow_timestamp=int(of_consumers.last_flow_at * 1000),
        last_consumed_timestamp=int(of_consumers.last_sent_at * 1000),
        last_acked_timestamp=int(subscription.last_acked_at * 1000),
        last_mark_delete_advanced_timestamp=int(subscription.flushes.advanced_at * 1000),
        consumers=each,
        consumers_count=len(consumers),
        non_contiguous_deleted_messages_ranges=state.deleted_ranges_count,
        is_blocked_on_ack_state_persistent=ack_state.is_blocking,
        ack_state_used=round(ack_state.used, 4),
        unpersisted_acks=subscription.cursor.unpersisted_entries,
    )
    if subscription.shared_progress is not None:
        _fill_progress(stats, topic, subscription.shared_progress)
    if not options.for_metrics:
        _describe(stats, topic, subscription)
        stats.oldest_holes = None if options.exclude_consumers else _oldest_holes(ack_state)
    return stats


def _describe(stats: SubscriptionStats, topic: Topic, subscription: Subscription) -> None:
    """Fill the fields that are no metrics."""
    cursor, consumers = subscription.cursor, subscription.consumers
    dispatcher = consumers.dispatcher
    stats.type = consumers.type_name
    if isinstance(dispatcher, SingleActiveDispatcher) and dispatcher.active:
        stats.active_consumer_name = dispatcher.active.name
    if isinstance(dispatcher, KeySharedDispatcher) and consumers:
        _fill_key_shared(stats, dispatcher)
    stats.is_durable = subscription.is_durable
    stats.is_replicated = subscription.is_replicated and not topic.replication_forbidden
    stats.non_contiguous_deleted_messages_ranges_serialized_size = cursor.state.deleted_serialized_size
    stats.unpersisted_batch_acks = cursor.unpersisted_batches
    stats.subscription_properties = cursor.subscription_properties


def _fill_key_shared(stats: SubscriptionStats, dispatcher: KeySharedDispatcher) -> None:
    draining = dispatcher.draining_totals()
    stats.allow_out_of_order_delivery = dispatcher.policy.allow_out_of_order_delivery
    stats.key_shared_mode = dispatcher.policy.mode_name
    stats.draining_hashes_count = draining.hashes
    stats.draining_hashes_cleared_total = draining.cleared
    stats.draining_hashes_unacked_messages = draining.unacked


def _fill_progress(stats: SubscriptionStats, topic: Topic, shared: SharedProgress) -> None:
    now, progress = topic.environment.clock.now(), topic.progress.unconfirmed(shared)
    stats.progress_age_seconds = _of_each(progress, lambda each: each.age_s(now))
    stats.progress_unconfirmed = _of_each(progress, lambda each: each.entries)
    stats.progress_lost = topic.progress.lost_in(shared)
    stats.progress_unavailable = topic.progress.unavailable()
    stats.progress_applied = shared.applied()


def _of_each(
    progress: dict[str, Unconfirmed | None], value_of: Callable[[Unconfirmed], Number]
) -> dict[str, Number | None]:
    """Return a value for each peer; unknown values stay unknown."""
    return {peer: None if each is None else value_of(each) for peer, each in progress.items()}


def _oldest_holes(ack_state: AckState) -> list[AckHole] | None:
    holes = ack_state.oldest_holes()
    return [AckHole(entries=str(hole.entries), consumers=hole.consumers) for hole in holes] or None


def _replicator_stats(topic: Topic, remote: str) -> ReplicatorStats:
    stats = ReplicatorStats()
    arrivals = topic.producers.sources.get(remote)
    if arrivals is not None:
        stats.msg_rate_in, stats.msg_throughput_in = arrivals.rates.per_second
        stats.msg_in_count, stats.bytes_in_count = arrivals.messages_in, arrivals.bytes_in
    inbound = topic.producers.of_source(remote)
    if inbound is not None:
        stats.inbound_connection = inbound.session.address
        stats.inbound_connected_since = iso_time(inbound.connected_at * 1000)
    replicator = topic.replicators.get(remote)
    if replicator is not None:
        _fill_outbound(stats, replicator)
    return stats


def _fill_outbound(stats: ReplicatorStats, replicator: Replicator) -> None:
    stats.msg_rate_out, stats.msg_throughput_out = replicator.rates_out.per_second
    stats.msg_out_count, stats.bytes_out_count = replicator.sent
    stats.replication_backlog = replicator.backlog
    stats.replication_delay_in_seconds = replicator.lag.delay_s()
    position = replicator.target_position
    if position.unknown_since is not None:
        stats.replication_unknown_since = iso_time(position.unknown_since * 1000)
        stats.replication_backlog_at_least = replicator.lag.unconfirmed + replicator.foreign.custody.at_least
    if position.unfilled_through is not None:
        stats.unfilled_through = str(position.unfilled_through)
    stats.pipeline = replicator.pipeline
    stats.parked_reason = replicator.parking.reason
    stats.handovers = replicator.handovers
    stats.damaged_at = None if replicator.own.damaged_at is None else str(replicator.own.damaged_at)
    skipped = replicator.topic.skipped.of(replicator.target)
    stats.skipped_entries = sum(each.entries for each in skipped) or None
    stats.skipped_ranges = [f"{each.first}..{each.last}" for each in skipped] or None
    stats.connected = replicator.is_carried
    if replicator.consumer is not None:
        stats.outbound_connection = replicator.consumer.session.address
        stats.outbound_connected_since = iso_time(replicator.consumer.connected_at * 1000)
