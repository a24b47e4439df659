"""The subscription that follows a streaming query: batches that Spark has committed are acknowledged in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.spark.connecting import pulsar_client
from magnetar.spark.read.range_reader import ATTEMPTS, PAUSE_SECONDS
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.position import Position
    from magnetar.client.client import PulsarClient
    from magnetar.spark.read.options import ReadOptions

_HINT = "hint: the query must be the only consumer of its predefinedSubscription"


def acknowledge(options: ReadOptions, through: Mapping[str, Position | None]) -> None:
    """Acknowledge the entries of topics up to and including a position; a missing subscription is created.

    None acknowledges nothing. An acknowledgement never moves a subscription back. Raises OSError and MagnetarError
    when ATTEMPTS have failed.
    """
    if through:
        asyncio.run(_acknowledge(options, through))


async def _acknowledge(options: ReadOptions, through: Mapping[str, Position | None]) -> None:
    async with pulsar_client(options) as client:
        for topic, position in through.items():
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    await _acknowledge_one(client, topic, options.predefined_subscription, position)
                    break
                except (OSError, MagnetarError):
                    if attempt == ATTEMPTS:
                        raise
                    await asyncio.sleep(PAUSE_SECONDS)


async def _acknowledge_one(client: PulsarClient, topic: str, subscription: str, position: Position | None) -> None:
    asked = pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        subType=pb.CommandSubscribe.Exclusive,
        initialPosition=pb.CommandSubscribe.Earliest,
        force_topic_creation=False,
    )
    try:
        consumer = await (await client.owner(topic)).create_consumer(asked, 1)
    except RequestError as error:
        text = f"subscription {subscription} of {topic}: {error}"
        raise RequestError(error.code, f"{text}\n{_HINT}" if error.code is ServerError.ConsumerBusy else text) from None
    if position is not None:
        await consumer.acknowledge_through(position)
    consumer.close()
