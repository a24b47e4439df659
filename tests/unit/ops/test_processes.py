from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from magnetar.ops.processes import (
    RESTART_INITIAL_SECONDS,
    RESTART_MAX_SECONDS,
    STABLE_SECONDS,
    Child,
    Command,
    Process,
    describe_exit,
    tail,
)
from tests.unit.ops.fakes import FakeProcesses

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command("jfk", ["true"], tmp_path, tmp_path / "logs" / "jfk.log")


def test_starts_again_what_ended_after_a_pause(command: Command) -> None:
    processes = FakeProcesses()
    child = Child(command, processes)
    child.start(0.0)
    processes.latest("jfk").status = -9
    assert child.tick(1.0) == "jfk was killed (SIGKILL); restarting it in 0.5 s"
    assert child.pid is None
    assert child.tick(1.0 + RESTART_INITIAL_SECONDS / 2) is None
    assert child.tick(1.0 + RESTART_INITIAL_SECONDS) == "jfk restarted: process 101"
    assert child.tick(2.0) is None
    assert processes.names == ["jfk", "jfk"]


def test_leaves_nothing_of_the_old_process_behind(command: Command) -> None:
    processes = FakeProcesses()
    child = Child(command, processes)
    child.start(0.0)
    processes.latest("jfk").status = 1
    child.tick(1.0)
    assert processes.latest("jfk").group_killed


def pauses(child: Child, processes: FakeProcesses, *, uptime: float, times: int) -> list[float]:
    now, seen = 0.0, []
    child.start(now)
    for _ in range(times):
        now += uptime
        processes.latest("jfk").status = 1
        child.tick(now)
        ended = now
        while child.pid is None:
            now += 0.25
            child.tick(now)
        seen.append(now - ended)
    return seen


def test_pauses_grow_to_a_limit_while_it_keeps_ending(command: Command) -> None:
    processes = FakeProcesses()
    seen = pauses(Child(command, processes), processes, uptime=1.0, times=8)
    assert seen == [0.5, 1.0, 2.0, 4.0, 8.0, RESTART_MAX_SECONDS, RESTART_MAX_SECONDS, RESTART_MAX_SECONDS]


def test_pauses_start_over_once_it_has_recovered(command: Command) -> None:
    processes = FakeProcesses()
    assert pauses(Child(command, processes), processes, uptime=STABLE_SECONDS, times=3) == [0.5, 0.5, 0.5]


def test_stopped_processes_stay_stopped(command: Command) -> None:
    processes = FakeProcesses()
    child = Child(command, processes)
    child.start(0.0)
    processes.latest("jfk").status = 1
    child.tick(1.0)
    child.stop()
    assert child.stopped
    assert child.tick(100.0) is None


def test_says_how_it_ended() -> None:
    assert [describe_exit(status) for status in (0, 3, -15, -250)] == [
        "ended with status 0",
        "ended with status 3",
        "was killed (SIGTERM)",
        "was killed (signal 250)",
    ]


def test_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert tail(log) == ""
    log.write_text("1\n2\n3\n", encoding="utf-8")
    assert tail(log, 2) == "2\n3"


def test_a_process_is_itself_and_logs_all_it_says(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getpid(), os.environ['WHO']); print('words', file=sys.stderr)"
    log = tmp_path / "logs" / "child.log"
    process = Process(Command("child", [sys.executable, "-c", program], tmp_path / "in", log, {"WHO": "ewr"}))
    assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT) is not None
    assert process.poll() == 0
    assert set(log.read_text(encoding="utf-8").splitlines()) == {f"{process.pid} ewr", "words"}


def test_a_process_dies_with_its_parent(tmp_path: Path) -> None:
    pipe = tmp_path / "held open while the child lives"
    os.mkfifo(pipe)
    child = f"import signal; held = open({str(pipe)!r}, 'w'); print('up', file=held, flush=True); signal.pause()"
    parent = (
        "import os, pathlib, sys; from magnetar.ops.processes import Command, Process;"
        "here = pathlib.Path(sys.argv[1]);"
        f"Process(Command('child', [sys.executable, '-c', {child!r}], here, here / 'log')); os.read(0, 1)"
    )
    with (
        subprocess.Popen([sys.executable, "-c", parent, str(tmp_path)], stdin=subprocess.PIPE) as running,
        pipe.open(encoding="ascii") as held,
    ):
        assert held.readline() == "up\n"
        running.kill()
        assert held.read() == ""  # the end of the file comes when no process has the pipe open


def test_a_killed_group_leaves_nobody(tmp_path: Path) -> None:
    pipe = tmp_path / "held open while anyone lives"
    os.mkfifo(pipe)
    grandchild = f"import signal; held = open({str(pipe)!r}, 'w'); print('up', file=held, flush=True); signal.pause()"
    child = f"import signal, subprocess, sys; subprocess.Popen([sys.executable, '-c', {grandchild!r}]); signal.pause()"
    process = Process(Command("child", [sys.executable, "-c", child], tmp_path, tmp_path / "log"))
    with pipe.open(encoding="ascii") as held:
        assert held.readline() == "up\n"
        process.kill_group()
        assert held.read() == ""
    assert process.poll() == -signal.SIGKILL
