"""Reports that a client of the pipeline gets unasked, each when it has read the one before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT_INTERVAL_S = 0.05
"""Minimum seconds between two reports to a client, so that many changes need few reports."""

REPORTED_AT_ONCE = 1_000
"""Maximum number of names in a report, some 100 bytes each."""


class Client(Protocol):
    """The connection of a client."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def write_in_turn(self, make: Callable[[], bytes]) -> None:
        """Send a frame that may be large, made when the client has read what was written before."""
        ...


async def sent(client: Client, make: Callable[[], bytes]) -> None:
    """Return when the frame that ``make`` returns was sent."""
    made: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send() -> bytes:
        frame = make()
        if not made.done():
            made.set_result(None)
        return frame

    client.write_in_turn(send)
    await made
