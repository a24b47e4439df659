"""A broker of either system as a process with a configuration file, a data directory and two ports."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from tests.kit.child import LOOPBACK, ChildProcess, free_ports
from tests.kit.processes import resident_bytes
from tests.kit.rest import Rest
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START_TIMEOUT_S = 60.0
NO_SETTINGS: Mapping[str, object] = {}


class Server(ABC):
    """A broker that forms one cluster. ``kill`` and ``start`` preserve its ports and data."""

    process_name: ClassVar[str]
    """The name of its log file."""

    def __init__(self, directory: Path, cluster: str, settings: Mapping[str, object] = NO_SETTINGS) -> None:
        """Choose ports; ``settings`` are additional configuration keys."""
        self.directory = directory
        self.cluster = cluster
        self.binary_port, self.web_port = free_ports(2)
        self.service_url = f"pulsar://{LOOPBACK}:{self.binary_port}"
        self.admin_url = f"http://{LOOPBACK}:{self.web_port}"
        self.rest = Rest(self.admin_url)
        self.environment: dict[str, str] = {}
        """Additional environment variables for the next start."""
        self.settings = dict(settings)
        """Additional configuration keys for the next start."""
        self._process: ChildProcess | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        """Start the broker, and create ``public/default``."""
        self.start()
        self.make_default_namespace()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop the broker."""
        self.stop()
        self.rest.close()

    @property
    def pid(self) -> int:
        """Return the id of the broker's process."""
        return self.process.pid

    @property
    def process(self) -> ChildProcess:
        """Return the running process."""
        if self._process is None:
            message = f"broker {self.cluster} is not running"
            raise RuntimeError(message)
        return self._process

    @abstractmethod
    def command(self) -> list[str]:
        """Write the configuration, and return the broker's command line."""

    def process_kind(self) -> type[ChildProcess]:
        """Return the class of the process that the last command needs."""
        return ChildProcess

    def launch(self) -> None:
        """Start the process without waiting."""
        command = self.command()  # it may add to the environment
        self._process = self.process_kind()(command, self.directory, self.process_name, self.environment)

    def start(self) -> None:
        """Start the process, and wait until it is healthy; stop it if it does not become healthy."""
        self.launch()
        try:
            wait_until(self._is_up, START_TIMEOUT_S, what=f"broker {self.cluster} healthy")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self._process = None

    def kill_if_running(self) -> None:
        """Kill the process with SIGKILL if it runs."""
        if self._process is not None:
            self.kill()

    def stop(self) -> None:
        """Stop the process with SIGTERM if it runs, and wait for its end."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def restart(self) -> None:
        """Kill the process with SIGKILL and start it again with the same data."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Suspend the process, like a machine that hangs: its sockets stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume a suspended process."""
        self.process.send_signal(signal.SIGCONT)

    def resident_bytes(self) -> int:
        """Return the resident memory of the process."""
        return resident_bytes(self.pid)

    def make_default_namespace(self) -> None:
        """Create the cluster's record and ``public/default``, if they are missing."""
        record = {"serviceUrl": self.admin_url, "brokerServiceUrl": self.service_url}
        self.rest.ensure(f"clusters/{self.cluster}", record)
        self.rest.ensure("tenants/public", {"adminRoles": [], "allowedClusters": [self.cluster]})
        self.rest.ensure("namespaces/public/default", {})

    def write_configuration(self, keys: Mapping[str, object]) -> Path:
        """Write ``broker.conf`` from the common keys, ``keys``, and the settings of the test."""
        every = {
            "clusterName": self.cluster,
            "brokerServicePort": self.binary_port,
            "webServicePort": self.web_port,
            "bindAddress": LOOPBACK,
            "advertisedAddress": LOOPBACK,
        }
        configuration = self.directory / "broker.conf"
        lines = (f"{key}={value}\n" for key, value in {**every, **keys, **self.settings}.items())
        configuration.write_text("".join(lines))
        return configuration

    def _is_up(self) -> bool:
        self.process.require_running()
        return self.rest.is_healthy()
