"""The lookup service as a process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

import httpx

from tests.kit.child import LOOPBACK, ChildProcess, free_ports
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START_TIMEOUT_S = 60.0
"""Time limit in seconds for the start on a busy machine."""


class Instance:
    """An instance on free ports; ``kill`` and ``start`` preserve its ports and data."""

    def __init__(
        self, directory: Path, admin_urls: Sequence[str], default_cluster: str = "ewr", options: Sequence[str] = ()
    ) -> None:
        """Follow the routes of the brokers with these admin URLs."""
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.port, self.web_port = free_ports(2)
        self.service_url = f"pulsar://{LOOPBACK}:{self.port}"
        self.web_url = f"http://{LOOPBACK}:{self.web_port}"
        urls = [argument for url in admin_urls for argument in ("--broker-url", url)]
        ports = ["--host", LOOPBACK, "--port", str(self.port), "--web-port", str(self.web_port)]
        self._command = [sys.executable, "-m", "magnetar.cli.main", "lookup", *urls, *ports]
        self._command += ["--data", str(directory / "data"), "--default-cluster", default_cluster, *options]
        self.process: ChildProcess | None = None

    def start(self) -> Self:
        """Start the process, and wait until it has routes."""
        self.process = ChildProcess(self._command, self.directory, "lookup", {})
        wait_until(self._is_up, START_TIMEOUT_S, what="lookup service healthy")
        return self

    def kill(self) -> None:
        """Kill the process with SIGKILL if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def restart(self) -> None:
        """Kill the process with SIGKILL and start it again with the same data."""
        self.kill()
        self.start()

    def _is_up(self) -> bool:
        assert self.process is not None
        self.process.require_running()
        try:
            return httpx.get(f"{self.web_url}/health").is_success
        except httpx.TransportError:
            return False
