"""Counting of executed lines, as a measure of work that does not depend on the machine's speed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


def lines_run(call: Callable[[], Any]) -> int:
    """Run ``call``, and return the number of executed Python lines, including those of called functions.

    The work of one line in C, such as sorting, counts as one line.
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
