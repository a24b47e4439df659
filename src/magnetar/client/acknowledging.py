"""Acknowledges messages of a subscription that has no consumers, for tools that know which ones were consumed."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.position import EARLIEST
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.client.client import PulsarClient

IDS_MAX = 1_000
"""Messages in one command."""


async def acknowledge(
    client: PulsarClient, topic: str, subscription: str, through: Position, ids: Iterable[pb.MessageIdData]
) -> str:
    """Acknowledge everything through a position, then messages and parts of batches; return why it is not possible.

    A missing subscription is created. Raises as PulsarClient.owner.
    """
    asked = pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=pb.CommandSubscribe.Exclusive,  # no other consumer comes in between
        initialPosition=pb.CommandSubscribe.Earliest,
        force_topic_creation=False,
    )
    try:
        consumer = await (await client.owner(topic)).create_consumer(asked, 1)
    except RequestError as error:
        if error.code is ServerError.ConsumerBusy:
            return f"a consumer has connected to the subscription in the target: {error}"
        raise
    if through > EARLIEST:
        await consumer.acknowledge_through(through)
    left = iter(ids)
    while some := list(islice(left, IDS_MAX)):
        await consumer.acknowledge_each(some)
    consumer.close()
    return ""
