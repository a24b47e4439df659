from __future__ import annotations

import gc
from types import FrameType
from typing import TYPE_CHECKING

import pytest

import magnetar
from magnetar.sim.virtual.loop import HandLoop
from tests.kit.garbage import only_new_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES = str(magnetar.__path__[0])


@pytest.fixture(autouse=True)
def _loops_closed() -> Iterator[None]:
    yield
    HandLoop.close_all()


@pytest.fixture
def left_to_the_collector() -> Iterator[Callable[[], list[FrameType]]]:
    """Disable the cyclic garbage collector; return a function that collects and returns Magnetar's frames in cycles.

    Other threads of the test process, such as those of Spark, leave cycles of their own.
    """
    with only_new_objects():
        gc.disable()
        yield _collect
        gc.enable()


def _collect() -> list[FrameType]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = [each for each in gc.garbage if isinstance(each, FrameType) and each.f_code.co_filename.startswith(SOURCES)]
    gc.garbage.clear()
    return found
