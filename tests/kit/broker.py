"""One broker as its users run it: a process with a configuration file and a data directory."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Self

from tests.kit.child import LOOPBACK, ChildProcess, free_ports
from tests.kit.processes import resident_bytes
from tests.kit.rest import Rest
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START_TIMEOUT_S = 60.0
NO_SETTINGS: Mapping[str, object] = {}


class Broker:
    """A ``magnetar broker`` on free ports; it keeps its ports and its data through ``kill`` and ``start``."""

    def __init__(
        self, directory: Path, cluster: str = "standalone", settings: Mapping[str, object] = NO_SETTINGS
    ) -> None:
        """Choose ports and write the configuration; ``settings`` are further keys of it."""
        self.directory = directory
        self.cluster = cluster
        self.binary_port, self.web_port = free_ports(2)
        self.service_url = f"pulsar://{LOOPBACK}:{self.binary_port}"
        self.admin_url = f"http://{LOOPBACK}:{self.web_port}"
        self.rest = Rest(self.admin_url)
        self._settings = settings
        self._process: ChildProcess | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        """Start the broker and make ``public/default``."""
        self.start()
        self.make_default_namespace()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop the broker."""
        self.stop()
        self.rest.close()

    @property
    def pid(self) -> int:
        """The broker's process."""
        return self.process.pid

    @property
    def process(self) -> ChildProcess:
        """The running broker."""
        if self._process is None:
            message = f"broker {self.cluster} is not running"
            raise RuntimeError(message)
        return self._process

    def start(self) -> None:
        """Start the process and return when it is healthy."""
        self._process = ChildProcess(self.command(), self.directory, "broker")
        wait_until(self._is_up, START_TIMEOUT_S, what=f"broker {self.cluster} healthy")

    def command(self) -> list[str]:
        """Write the configuration and return the command that runs the broker with it."""
        keys = {
            "clusterName": self.cluster,
            "brokerServicePort": self.binary_port,
            "webServicePort": self.web_port,
            "bindAddress": LOOPBACK,
            "advertisedAddress": LOOPBACK,
            "dataDirectory": self.directory / "data",
            **self._settings,
        }
        configuration = self.directory / "broker.conf"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return [sys.executable, "-m", "magnetar.cli.main", "broker", "--config", str(configuration)]

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()
        self._process = None

    def stop(self) -> None:
        """SIGTERM, and wait; nothing if it does not run."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def restart(self) -> None:
        """``kill -9`` and start again on the same data."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Stop the process from running, as a machine that hangs would: its sockets stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process run on."""
        self.process.send_signal(signal.SIGCONT)

    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        return resident_bytes(self.pid)

    def make_default_namespace(self) -> None:
        """Make sure of the cluster's record and of ``public/default``."""
        record = {"serviceUrl": self.admin_url, "brokerServiceUrl": self.service_url}
        self.rest.ensure(f"clusters/{self.cluster}", record)
        self.rest.ensure("tenants/public", {"adminRoles": [], "allowedClusters": [self.cluster]})
        self.rest.ensure("namespaces/public/default", {})

    def _is_up(self) -> bool:
        self.process.require_running()
        return self.rest.is_healthy()
