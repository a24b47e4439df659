"""Turns of the event loop."""

from __future__ import annotations

import asyncio


async def next_turn() -> None:
    """Return in the next turn of the loop, after the callbacks that wait for it."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn
