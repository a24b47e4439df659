"""The number of concurrent large responses is limited, and every request gets its response."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from magnetar.admin.exchange import LARGE_ANSWERS_AT_ONCE, Context, large_answer

REQUESTS = 20


class Noun:
    """Counts the responses in progress."""

    def __init__(self) -> None:
        nothing: Any = None
        self._context = Context(nothing, nothing)
        self.making = self.most = 0

    @large_answer
    async def stats(self, request: Any) -> Any:  # noqa: ANN401 - stands for a request and its answer
        self.making += 1
        self.most = max(self.most, self.making)
        await request.ready.wait()
        self.making -= 1
        return request.number


def test_few_large_answers_are_made_at_once() -> None:
    async def run() -> None:
        noun, ready = Noun(), asyncio.Event()
        requests: list[Any] = [SimpleNamespace(number=number, ready=ready) for number in range(REQUESTS)]
        asyncio.get_running_loop().call_later(0, ready.set)
        answers: list[Any] = await asyncio.gather(*(noun.stats(each) for each in requests))
        assert answers == list(range(REQUESTS))
        assert noun.most == LARGE_ANSWERS_AT_ONCE

    asyncio.run(run())
