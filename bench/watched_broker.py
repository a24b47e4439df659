"""``magnetar broker`` with precise measurement of its event loop: each long turn is written to a file as a line.

The broker itself checks every 50 ms (``magnetar_loop_stall_seconds``), which detects a loop that is busy for long, but
does not measure single turns. Here a timer is due every ``LOOK_S``. So the measured duration of a turn is up to that
much too short. The timer takes some 4 % of a processor.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from magnetar.broker import service
from magnetar.broker.loop.stack_sampler import StackSampler
from magnetar.cli.main import main
from tests.kit.broker import Broker

if TYPE_CHECKING:
    import asyncio

    from magnetar.base.logs.log_limit import LogLimit
    from magnetar.base.world import Clock
    from magnetar.broker.settings.config import BrokerConfig

TURNS_VARIABLE = "MAGNETAR_BENCH_TURNS"
"""Environment variable with the path of the file."""

LOOK_S = 0.002
"""Interval of the timer in seconds."""

NOTED_FROM_S = 0.004
"""Minimum duration of a recorded turn in seconds."""

SEEN_FROM_S = 0.008
"""Seconds after which a thread samples the loop's stack, repeatedly, so at most half as much later."""

_SCHEDSTAT = "/proc/self/schedstat"
"""Of the main thread, which runs the loop: nanoseconds on a processor, and nanoseconds of waiting for one."""

_STAT = "/proc/stat"
_STOLEN_FIELD = 8
"""The time that the host gave to others, in the line of a processor in _STAT, in ticks."""

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Turn:
    """One long turn of the event loop."""

    at_s: float
    """Time of its end on the monotonic clock, which all processes share."""
    seconds: float
    waited_s: float
    """Seconds of it in which the loop was runnable while other processes, or others on the host, had the processors."""
    processor_s: float
    """Seconds of it on a processor. The rest, besides ``waited_s``, is waiting for the disk or the interpreter's lock,
    which a thread keeps while it waits for a processor."""
    stolen_s: float
    """The part of ``waited_s`` in which others on the host of a virtual machine had the processor, in steps of 10 ms.
    Linux counts it as time of the thread."""
    where: str
    """The functions on the loop's stack, the innermost first; empty if it was not sampled."""


class WatchedBroker(Broker):
    """A broker that records the turns of its event loop."""

    module: ClassVar[str] = "bench.watched_broker"

    def command(self) -> list[str]:
        """See Server."""
        self.environment[TURNS_VARIABLE] = str(self._path)
        return super().command()

    def turns(self) -> list[Turn]:
        """Return the long turns so far, of all starts."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [Turn(**json.loads(line)) for line in lines]

    @property
    def _path(self) -> Path:
        return self.directory / "turns.jsonl"


class TurnWatch:
    """Records the long turns of its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, path: Path) -> None:
        """Create a watch that writes to ``path``; ``start`` starts it."""
        self._loop = loop
        self._clock = clock
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._schedstat = os.open(_SCHEDSTAT, os.O_RDONLY)
        self._stat = os.open(_STAT, os.O_RDONLY)
        self._waited_s = self._processor_s = 0.0
        self._stolen: list[int] = []
        self._sampler = StackSampler(clock, SEEN_FROM_S)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start recording."""
        self._sampler.start()
        self._waited_s, self._processor_s, self._stolen = self._waited(), time.thread_time(), self._stolen_ticks()
        self._plan()

    def stop(self) -> None:
        """Record the current turn, and stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._look()
            self._timer.cancel()
        self._sampler.stop()
        self._file.close()
        os.close(self._schedstat)
        os.close(self._stat)

    def _plan(self) -> None:
        self._due = self._clock.monotonic() + LOOK_S
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        now, where = self._clock.monotonic(), self._sampler.beat()
        waited_s, processor_s, stolen = self._waited(), time.thread_time(), self._stolen_ticks()
        late_s = now - self._due
        if late_s >= NOTED_FROM_S:
            # The loop may have changed the processor, but was on one at a time.
            taken_s = max(after - before for before, after in zip(self._stolen, stolen, strict=True)) * _TICK_S
            turn = turn_of(now, late_s, waited_s - self._waited_s, processor_s - self._processor_s, taken_s, where)
            self._file.write(json.dumps(asdict(turn)) + "\n")
        self._waited_s, self._processor_s, self._stolen = waited_s, processor_s, stolen
        self._plan()

    def _waited(self) -> float:
        return int(os.pread(self._schedstat, 100, 0).split()[1]) / 1e9

    def _stolen_ticks(self) -> list[int]:
        """Return the stolen time of each processor."""
        _, *processors = os.pread(self._stat, 1 << 16, 0).split(b"\ncpu")
        return [int(each.split(maxsplit=_STOLEN_FIELD + 1)[_STOLEN_FIELD]) for each in processors]


def turn_of(at_s: float, seconds: float, waited_s: float, processor_s: float, taken_s: float, where: str) -> Turn:
    """Return a turn; ``taken_s`` is the stolen time of a processor, which ``processor_s`` may contain."""
    stolen_s = min(taken_s, processor_s)
    return Turn(
        at_s,
        round(seconds, 4),
        round(waited_s + stolen_s, 4),
        round(processor_s - stolen_s, 4),
        round(stolen_s, 4),
        where,
    )


class _WatchedService(service.Broker):
    """The broker, watched from the end of its start to the end of its stop."""

    def __init__(self, config: BrokerConfig, *, log_limit: LogLimit) -> None:
        super().__init__(config, log_limit=log_limit)
        self._watch: TurnWatch | None = None

    async def start(self) -> None:
        await super().start()
        environment = self.environment
        self._watch = TurnWatch(environment.loop, environment.clock, Path(os.environ[TURNS_VARIABLE]))
        self._watch.start()

    async def stop(self) -> None:
        await super().stop()
        if self._watch is not None:
            self._watch.stop()


if __name__ == "__main__":
    vars(service)["Broker"] = _WatchedService
    sys.exit(main())
