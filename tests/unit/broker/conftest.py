from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.loop import HandLoop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _loops_closed() -> Iterator[None]:
    yield
    HandLoop.close_all()
