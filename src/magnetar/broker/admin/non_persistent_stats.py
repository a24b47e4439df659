"""Statistics of non-persistent topics, in the models of the admin API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.models.clients import NonPersistentPublisherStats
from magnetar.admin.models.subscriptions import NonPersistentSubscriptionStats
from magnetar.admin.models.topics import NonPersistentTopicStats
from magnetar.broker.admin.stats import consumer_stats, publisher_stats
from magnetar.broker.non_persistent.dispatchers import ActiveConsumerDispatcher, StickyKeyDispatcher
from magnetar.broker.non_persistent.producer import NonPersistentProducer

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.admin.models.clients import ConsumerStats
    from magnetar.admin.topic_service import StatsOptions
    from magnetar.broker.non_persistent.subscription import NonPersistentSubscription
    from magnetar.broker.non_persistent.topic import NonPersistentTopic


def non_persistent_stats(
    topic: NonPersistentTopic, options: StatsOptions
) -> Generator[None, None, NonPersistentTopicStats]:
    """Compute the statistics in steps, one for each subscription, consumer or producer."""
    rate_in, throughput_in = topic.arrivals.rates.per_second
    stats = NonPersistentTopicStats(
        msg_rate_in=rate_in,
        msg_throughput_in=throughput_in,
        average_msg_size=throughput_in / rate_in if rate_in else 0.0,
        bytes_in_counter=topic.arrivals.bytes_in,
        msg_in_counter=topic.arrivals.messages_in,
        publish_rate_limited_times=topic.rates.publish_limited,
        waiting_publishers=len(topic.producers.access.waiting),
        topic_epoch=topic.producers.access.topic_epoch,
        owner_broker=topic.environment.config.advertisedAddress,
    )
    for name, subscription in sorted(topic.subscriptions.items()):
        of_each = stats.subscriptions[name] = yield from _subscription_stats(subscription, options)
        stats.msg_rate_out += of_each.msg_rate_out
        stats.msg_throughput_out += of_each.msg_throughput_out
        stats.msg_drop_rate += of_each.msg_drop_rate
        yield
    for producer in tuple(topic.producers.clients()):
        stats.publishers_count += 1
        if isinstance(producer, NonPersistentProducer):
            stats.msg_drop_rate += producer.drop_rate.per_second[0]
            if not options.exclude_publishers:
                stats.publishers.append(
                    publisher_stats(
                        producer, NonPersistentPublisherStats(msg_drop_rate=producer.drop_rate.per_second[0])
                    )
                )
                yield
    messages_out, bytes_out, _, _ = topic.counters_out()
    stats.msg_out_counter, stats.bytes_out_counter = messages_out, bytes_out
    return stats


def _subscription_stats(
    subscription: NonPersistentSubscription, options: StatsOptions
) -> Generator[None, None, NonPersistentSubscriptionStats]:
    each: list[ConsumerStats] = []
    dispatcher = subscription.consumers.dispatcher
    sticky = dispatcher if isinstance(dispatcher, StickyKeyDispatcher) else None
    ranges = sticky.hash_ranges() if sticky is not None else {}
    for consumer in () if options.exclude_consumers else tuple(subscription.consumers):
        one = consumer_stats(consumer)
        if sticky is not None:
            one.key_hash_range_arrays = [list(ends) for ends in ranges.get(consumer, ())]
        each.append(one)
        yield
    summary = subscription.consumers.summary()
    rate, throughput, acked, _, dropped = subscription.rates.per_second
    stats = NonPersistentSubscriptionStats(
        msg_rate_out=rate,
        msg_throughput_out=throughput,
        message_ack_rate=acked,
        bytes_out_counter=summary.bytes_sent,
        msg_out_counter=summary.messages_sent,
        last_consumed_flow_timestamp=int(summary.last_flow_at * 1000),
        last_consumed_timestamp=int(summary.last_sent_at * 1000),
        last_acked_timestamp=int(subscription.last_acked_at * 1000),
        type=subscription.consumers.type_name,
        consumers=each,
        consumers_count=len(subscription.consumers),
        is_durable=False,
        subscription_properties=dict(subscription.properties),
        msg_drop_rate=dropped,
        msg_drop_count=subscription.dropped,
    )
    if isinstance(dispatcher, ActiveConsumerDispatcher) and dispatcher.active is not None:
        stats.active_consumer_name = dispatcher.active.name
    if sticky is not None:
        stats.allow_out_of_order_delivery = sticky.policy.allow_out_of_order_delivery
        stats.key_shared_mode = sticky.policy.mode_name
    return stats
