"""Work in steps, done at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

Result = TypeVar("Result")


def result_of(steps: Generator[None, None, Result]) -> Result:
    """Take all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: Result = end.value
            return value
