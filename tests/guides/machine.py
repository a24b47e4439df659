"""A machine of the guides: directories, ports and services below one directory, without root and without systemd.

``sudo`` runs a command as it is. ``systemctl`` starts the command of a unit with its environment, and stops it; the
confinement of the unit does not apply, and no user is created.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from tests.guides.page import ROOT
from tests.guides.shell import Shell
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.rest import Rest
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.server import Server

_SYSTEMCTL = ROOT / "tests" / "guides" / "systemctl.py"
_DIRECTORIES = (
    "/etc/magnetar",
    "/etc/pulsar",
    "/etc/systemd/system",
    "/etc/sysusers.d",
    "/opt",
    "/var/backups",
    "/var/lib",
    "/var/log/magnetar",
)
_MAGNETAR = f'exec {sys.executable} -P -m magnetar.cli.main "$@"'
_COMMANDS = {
    "chown": ":",
    "magnetar": _MAGNETAR,
    "python": f'exec {sys.executable} "$@"',
    "sudo": 'exec "$@"',
    "systemctl": f'exec {sys.executable} {_SYSTEMCTL} "$@"',
    "systemd-sysusers": ":",
}


class Machine:
    """A machine with a shell. Its files are below ``directory``."""

    def __init__(self, directory: Path) -> None:
        """Choose ports, create directories and commands."""
        self.directory = directory
        self.binary_port, self.web_port, self.metrics_port, self.secure_binary_port, self.secure_web_port = free_ports(
            5
        )
        self.service_url = f"pulsar://{LOOPBACK}:{self.binary_port}"
        self.admin_url = f"http://{LOOPBACK}:{self.web_port}"
        self.rest = Rest(self.admin_url)
        for each in _DIRECTORIES:
            (directory / each[1:]).mkdir(parents=True, exist_ok=True)
        for name, script in _COMMANDS.items():
            write_command(directory / "bin" / name, script)
        self.install_release("0.1.0", _MAGNETAR)
        (directory / "opt/magnetar").symlink_to("magnetar-0.1.0")

    def install_release(self, version: str, script: str) -> None:
        """Install ``script`` as the command ``magnetar`` of a release."""
        write_command(self.directory / f"opt/magnetar-{version}/bin/magnetar", script)

    def kill(self, service: str) -> None:
        """Kill a service with SIGKILL."""
        os.killpg(int((self.directory / "run" / f"{service}.pid").read_text(encoding="ascii")), signal.SIGKILL)

    @property
    def data(self) -> Path:
        """Return the data directory of the broker."""
        return self.directory / "var/lib/magnetar"

    def __enter__(self) -> Self:
        """Return the machine, whose services stop at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop all services."""
        self.rest.close()
        subprocess.run([self.directory / "bin" / "systemctl", "stop-all"], env=self.environment, check=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of its processes."""
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, "HOME": str(self.directory), "MACHINE": str(self.directory), "PATH": path}

    def shell(self, hosts: Mapping[str, Machine | Server], cluster: str = "ewr") -> Shell:
        """Return a shell in a copy of the files for deployment, on the machine of ``cluster``.

        ``hosts`` are all machines by name.
        """
        shell = Shell(self.directory, self._replaced(hosts, cluster), self.environment)
        copy = self.directory / "deploy"
        shutil.copytree(ROOT / "deploy" / "systemd", copy / "systemd")
        shutil.copytree(ROOT / "deploy" / "compose", copy / "compose")
        for file in copy.rglob("*.*"):
            file.write_text(shell.adapted(file.read_text(encoding="utf-8")), encoding="utf-8")
        return shell

    def _replaced(self, hosts: Mapping[str, Machine | Server], cluster: str) -> dict[str, str]:
        """Return the replacements in texts of guides."""
        found = {r"CLUSTER=ewr\b": f"CLUSTER={cluster}", r"broker\.\$CLUSTER\.example": LOOPBACK}
        found[r"DNS:broker\.\$cluster\.example"] = f"IP:{LOOPBACK}"
        for host, machine in hosts.items():
            found[rf"\b{re.escape(host)}:6650\b"] = f"{LOOPBACK}:{machine.binary_port}"
            found[rf"\b{re.escape(host)}:8080\b"] = f"{LOOPBACK}:{machine.web_port}"
            if isinstance(machine, Machine):
                found[rf"\b{re.escape(host)}:6651\b"] = f"{LOOPBACK}:{machine.secure_binary_port}"
                found[rf"\b{re.escape(host)}:8443\b"] = f"{LOOPBACK}:{machine.secure_web_port}"
            found[rf"\b{re.escape(host)}\b"] = LOOPBACK
        found |= {r"\b6650\b": str(self.binary_port), r"\b8080\b": str(self.web_port)}
        found |= {r"\b6651\b": str(self.secure_binary_port), r"\b8443\b": str(self.secure_web_port)}
        found |= {r"\b9400\b": str(self.metrics_port)}
        return found | {rf"(?<![\w.]){each}\b": f"{self.directory}{each}" for each in _DIRECTORIES}

    def wait_until_healthy(self) -> None:
        """Wait until the broker is healthy."""
        wait_until(self.rest.is_healthy, 60, what="broker healthy")


def write_command(path: Path, script: str) -> None:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
