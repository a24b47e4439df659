"""Fake processes and a manual clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.ops.processes import Command


class FakeProcess:
    """Runs until ``end``."""

    def __init__(self, pid: int, *, obeys: bool = True) -> None:
        self.pid = pid
        self.status: int | None = None
        self.obeys = obeys
        self.group_killed = False

    def poll(self) -> int | None:
        return self.status

    def terminate(self) -> None:
        if self.obeys:
            self.status = 0

    def kill_group(self) -> None:
        self.group_killed = True
        if self.status is None:
            self.status = -9


class FakeProcesses:
    """Starts fake processes and stores them by name."""

    def __init__(self) -> None:
        self.started: list[tuple[str, FakeProcess]] = []
        self.obey = True
        self._pids = itertools.count(100)

    def __call__(self, command: Command) -> FakeProcess:
        process = FakeProcess(next(self._pids), obeys=self.obey)
        self.started.append((command.name, process))
        command.log.parent.mkdir(parents=True, exist_ok=True)
        command.log.touch()
        return process

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.started]

    def latest(self, name: str) -> FakeProcess:
        return [process for started, process in self.started if started == name][-1]


class FakeClock:
    """A clock that advances only in waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
