"""Every background task has an owner that sees its exception."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any

import magnetar
from magnetar.base.tasks import start_task

SOURCE = Path(magnetar.__file__).parent
STARTERS = ("create_task", "ensure_future")


async def fail() -> None:
    message = "a bug"
    raise ValueError(message)


def test_an_exception_reaches_the_loops_handler_at_once() -> None:
    async def run() -> list[dict[str, Any]]:
        loop, contexts = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: contexts.append(context))
        await asyncio.wait([start_task(loop, fail(), "the work")])
        waiting = start_task(loop, asyncio.Event().wait(), "waiting")
        waiting.cancel()
        await asyncio.wait([waiting])
        return contexts

    (context,) = asyncio.run(run())
    assert context["message"] == "task the work failed"
    assert isinstance(context["exception"], ValueError)


def test_no_task_is_started_elsewhere() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STARTERS
    ]
    allowed = ("base/tasks.py", "sim/")
    assert [place for place in found if not place.startswith(allowed)] == []
