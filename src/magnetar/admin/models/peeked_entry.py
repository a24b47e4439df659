"""An entry in the answer of a peek request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from magnetar.base.position import Position

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class PeekedEntry:
    """An entry, as a peek request returns it."""

    position: Position
    publish_time: str | None
    properties: dict[str, str]
    messages: int
    """Number of messages in the entry."""
    payload: bytes
    """Decompressed payload; for a batch, its messages with their metadata."""

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """Parse the answer to a peek request. The message id can include a batch index, which is ignored."""
        headers = response.headers
        ledger, entry, *_ = headers["X-Pulsar-Message-ID"].split(":")
        return cls(
            Position(int(ledger), int(entry)),
            headers.get("X-Pulsar-publish-time"),
            json.loads(headers.get("X-Pulsar-PROPERTY", "{}")),
            int(headers.get("X-Pulsar-num-batch-message", "1")),
            response.content,
        )
