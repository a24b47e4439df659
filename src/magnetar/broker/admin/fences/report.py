"""The state of a topic that a migration waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.models.acknowledgements import FencedLink, FencedSubscription, FencedTopic, SetFence
from magnetar.broker.migration_fence.digest import digest_steps

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.broker.migration_fence.fence import MigrationFence
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic


def fenced_topic_steps(topic: Topic, *, digests: bool) -> Generator[None, None, FencedTopic]:
    """Return the state of a topic in steps; each subscription as it is in one of them."""
    found = FencedTopic(
        last_position=topic.ledger.last_confirmed_entry,
        fence=shown_fence(topic.log.migration_fence),
        links={
            target: FencedLink(backlog=link.backlog, connected=link.is_carried, parked_reason=link.parking.reason)
            for target, link in sorted(topic.replicators.items())
        },
    )
    for subscription in topic.each_subscription():
        if subscription.is_durable:
            found.subscriptions[subscription.name] = yield from _subscription_steps(
                topic, subscription, digests=digests
            )
    return found


def shown_fence(fence: MigrationFence) -> SetFence | None:
    """Return a fence for the admin API; None without one."""
    present, left_s = fence.present, fence.lease_left_s
    if present is None:
        return None
    return SetFence(
        migration=present.migration,
        epoch=present.epoch,
        phase=present.phase.value,
        lease_seconds=None if left_s is None else present.lease_s,
        lease_ends_in_seconds=None if left_s is None else round(left_s, 3),
    )


def _subscription_steps(
    topic: Topic, subscription: Subscription, *, digests: bool
) -> Generator[None, None, FencedSubscription]:
    dispatcher, keeper = subscription.consumers.dispatcher, subscription.shared_progress
    found = FencedSubscription(
        unacknowledged_messages=0 if dispatcher is None else dispatcher.in_progress,
        unacknowledged_entries=subscription.backlog,
        is_replicated=keeper is not None and not topic.replication_forbidden,
    )
    if keeper is not None:
        now = topic.environment.clock.now()
        for peer, unconfirmed in topic.progress.unconfirmed(keeper).items():
            found.progress_unconfirmed[peer] = None if unconfirmed is None else unconfirmed.entries
            found.progress_age_seconds[peer] = None if unconfirmed is None else round(unconfirmed.age_s(now), 3)
    yield
    if digests:
        ledger, log = topic.ledger, topic.log
        found.digest = yield from digest_steps(
            log.index, subscription.cursor.state, ledger.first_position, ledger.last_confirmed_entry
        )
    return found
