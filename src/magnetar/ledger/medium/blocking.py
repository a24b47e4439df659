"""Running the coroutines of a medium that blocks, which never suspend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Result = TypeVar("Result")


def run_blocking(function: Callable[..., Coroutine[Any, Any, Result]], *args: object) -> Result:
    """Call ``function``, run the coroutine that it returns to its end on this thread, and return its result."""
    coroutine = function(*args)
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    coroutine.close()
    message = f"{coroutine!r} waits for something"
    raise AssertionError(message)
