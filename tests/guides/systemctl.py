"""``systemctl`` for `Machine`: runs the commands of units as processes. The variable MACHINE names its directory."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STOP_TIMEOUT_S = 60.0

_machine = Path(os.environ["MACHINE"])
_units = _machine / "etc/systemd/system"
_run = _machine / "run"


def main(verb: str, *names: str) -> int:
    """Carry out a verb of systemctl."""
    _run.mkdir(exist_ok=True)
    verbs: dict[str, Callable[[str], int]] = {
        "enable": _start,
        "freeze": lambda service: _signal(service, signal.SIGSTOP),
        "is-active": lambda service: 0 if _process_id(service) else 3,
        "restart": lambda service: _stop(service) or _start(service),
        "start": _start,
        "stop": _stop,
        "thaw": lambda service: _signal(service, signal.SIGCONT),
    }
    if verb == "daemon-reload":
        return 0
    if verb == "stop-all":
        return max([0, *(_stop(file.stem) for file in _run.glob("*.pid"))])
    services = [name for name in names if name != "--now"]
    return max(map(verbs[verb], services))


def _start(service: str) -> int:
    """Run the unit's commands; the last one stays in the background."""
    if _process_id(service):
        return 0
    keys = _service_keys(service)
    environment = dict(os.environ)
    for file in keys.get("EnvironmentFile", []):
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        environment |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for line in keys.get("ExecStartPre", []):
        done = subprocess.run(shlex.split(Template(line).substitute(environment)), env=environment, check=False)
        if done.returncode:
            return done.returncode
    for directory in keys.get("StateDirectory", []):
        (_machine / "var/lib" / directory).mkdir(parents=True, exist_ok=True)
    (command,) = keys["ExecStart"]
    with (_machine / f"{service}.log").open("ab") as log:
        process = subprocess.Popen(
            shlex.split(Template(command).substitute(environment)),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (_run / f"{service}.pid").write_text(str(process.pid), encoding="ascii")
    return 0


def _stop(service: str) -> int:
    process_id = _process_id(service)
    if process_id:
        os.kill(process_id, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _process_id(service):
            if time.monotonic() > deadline:
                os.killpg(process_id, signal.SIGKILL)
                return 1
            time.sleep(0.02)
    return 0


def _signal(service: str, number: signal.Signals) -> int:
    process_id = _process_id(service)
    if process_id is None:
        return 1
    os.killpg(process_id, number)
    return 0


def _process_id(service: str) -> int | None:
    """Return the process of a service if it runs."""
    try:
        process_id = int((_run / f"{service.removesuffix('.service')}.pid").read_text(encoding="ascii"))
        state = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return None
    return process_id if state != "Z" else None


def _service_keys(service: str) -> dict[str, list[str]]:
    """Return the keys of the section Service of a unit."""
    text = (_units / f"{service.removesuffix('.service')}.service").read_text(encoding="utf-8")
    keys: dict[str, list[str]] = {}
    for line in text.partition("[Service]")[2].partition("\n[")[0].splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            keys.setdefault(key, []).append(value)
    return keys


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
