"""Reads and acknowledges messages of one cluster by Pulsar's binary protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import MagnetarError
from magnetar.client.acknowledging import acknowledge
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from magnetar.base.position import Position
    from magnetar.migration.pulsar.topic_log import TopicLog
    from magnetar.security.credentials import Credentials
    from magnetar.wire.proto import pulsar_api_pb2 as pb

STALL_S: Final = 30.0
"""Maximum time for the next entry of a log, and for all acknowledgements of a subscription."""

READ_AHEAD: Final = 5_000
"""Messages of a log that wait to be read."""


class Brokers:
    """The brokers of one cluster. Used by several threads."""

    def __init__(self, service_url: str, credentials: Credentials) -> None:
        """Use the brokers at ``service_url``; nothing is connected yet."""
        self._service_url = service_url
        self._options = ClientOptions(credentials=credentials)

    def read_on(self, topic: str, log: TopicLog) -> str:
        """Add the entries of a topic that ``log`` does not have yet; return why they cannot be read."""
        return self._run(self._read_on(topic, log), f"the log of {topic} cannot be read")

    def acknowledge(self, topic: str, subscription: str, through: Position, ids: Sequence[pb.MessageIdData]) -> str:
        """Acknowledge messages, all through a position among them; return why this is not possible."""
        return self._run(
            self._acknowledge(topic, subscription, through, ids), f"{subscription} of {topic} cannot be acknowledged"
        )

    def _run(self, work: Coroutine[None, None, str], what: str) -> str:
        return result_of(work, f"{what} at {self._service_url}")

    async def _read_on(self, topic: str, log: TopicLog) -> str:
        async with PulsarClient(self._service_url, self._options) as client:
            reader = await client.read(topic, log.end, read_ahead=READ_AHEAD, creates_topic=False)
            last = await reader.last_position()
            while log.end < last:
                async with asyncio.timeout(STALL_S):
                    received = await reader.receive()
                log.add(received.position, received.metadata)
            reader.close()
        return ""

    async def _acknowledge(
        self, topic: str, subscription: str, through: Position, ids: Sequence[pb.MessageIdData]
    ) -> str:
        async with asyncio.timeout(STALL_S), PulsarClient(self._service_url, self._options) as client:
            return await acknowledge(client, topic, subscription, through, ids)


def result_of(work: Coroutine[None, None, str], failure: str) -> str:
    """Do work with a broker and return its result; ``failure`` and the error if it cannot be done."""
    try:
        return asyncio.run(work)
    except (OSError, TimeoutError, MagnetarError) as error:
        return f"{failure}: {str(error) or repr(error)}"
