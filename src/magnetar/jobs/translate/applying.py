"""A translated state, set in the target by a consumer that acknowledges messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.client.acknowledging import acknowledge
from magnetar.jobs.connecting import options_of
from magnetar.jobs.survey import unless_missing
from magnetar.spark.connecting import pulsar_client
from magnetar.wire.entries.ack_set import int_to_words
from magnetar.wire.message_id import message_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.admin.client import AdminClient
    from magnetar.jobs.translate.outcome import Translation
    from magnetar.pipeline.options import ClusterAddress
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def apply(wanted: Translation, cluster: ClusterAddress, admin: AdminClient) -> None:
    """Set the state of a subscription, which is created if it does not exist, and note the result in ``wanted``.

    Only acknowledgements are added, so a state that was set in part is completed by the next attempt. Raises OSError
    and MagnetarError.
    """
    stats = unless_missing(admin.topics.stats, TopicName.parse(wanted.topic))
    wanted.refusal = refusal(wanted, stats)
    if not wanted.refusal:
        wanted.refusal = asyncio.run(_apply(wanted, cluster))
    wanted.applied = not wanted.refusal


def refusal(wanted: Translation, stats: Mapping[str, Any] | None) -> str:
    """Return why the state must not be set, from the stats of the topic in the target; empty if it can be set."""
    if stats is None:
        return "the topic does not exist in the target"
    consumers = len(stats["subscriptions"].get(wanted.subscription, {}).get("consumers", ()))
    if consumers:
        return f"the subscription has {consumers} consumers in the target"
    if wanted.ahead:
        return (
            f"the subscription has acknowledged {wanted.ahead} entries in the target that are not acknowledged in the "
            f"source, the first one at {wanted.first_ahead}"
        )
    return ""


async def _apply(wanted: Translation, cluster: ClusterAddress) -> str:
    """Set the state; return why the broker refused it, or nothing."""
    async with pulsar_client(options_of(cluster)) as client:
        return await acknowledge(client, wanted.topic, wanted.subscription, wanted.mark_delete, _ids(wanted))


def _ids(wanted: Translation) -> Iterator[pb.MessageIdData]:
    """Yield the messages that are acknowledged after the mark-delete position."""
    for ledger, first, last in wanted.ranges:
        for entry in range(first, last + 1):
            yield message_id(Position(ledger, entry))
    for place, batch in wanted.batches.items():
        yield message_id(place, batch_size=batch.messages, ack_set=int_to_words(batch.remaining))
