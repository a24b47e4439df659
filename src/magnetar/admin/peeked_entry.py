"""An entry as the admin API shows it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from magnetar.base.position import Position

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class PeekedEntry:
    """An entry as it was peeked at."""

    position: Position
    publish_time: str | None
    properties: dict[str, str]
    messages: int
    """How many messages the entry holds."""
    payload: bytes
    """Not compressed; of a batch, its messages with their metadata."""

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """Read the answer of a peek; a message id may name a place in a batch after the entry."""
        headers = response.headers
        ledger, entry, *_ = headers["X-Pulsar-Message-ID"].split(":")
        return cls(
            Position(int(ledger), int(entry)),
            headers.get("X-Pulsar-publish-time"),
            json.loads(headers.get("X-Pulsar-PROPERTY", "{}")),
            int(headers.get("X-Pulsar-num-batch-message", "1")),
            response.content,
        )
