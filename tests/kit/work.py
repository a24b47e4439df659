"""How much work a piece of code does, counted, so that a test does not depend on how fast the machine is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


def lines_run(call: Callable[[], Any]) -> int:
    """Run ``call`` and return how many lines of Python it runs, those of all that it calls included.

    What one line does in C, such as sorting, counts as one line.
    """
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - it returns itself
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines
