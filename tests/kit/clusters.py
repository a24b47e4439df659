"""Several clusters that know each other: under ``magnetar up``, or as separate brokers and a pipeline."""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from tests.kit.broker import Broker
from tests.kit.child import ChildProcess, free_ports
from tests.kit.messages import connect
from tests.kit.processes import connected_ports, find, is_alive
from tests.kit.rest import Rest
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pulsar

    from tests.kit.server import Server

NAMES = ("ewr", "jfk", "lga")
MAGNETAR = (sys.executable, "-m", "magnetar.cli.main")
UP_TIMEOUT_S = 180.0
"""Time limit in seconds for the start of three brokers and Spark on a busy machine."""

_READY = '"event": "ready"'

PORT_STEP = 10
"""Difference between the ports of two clusters in ``magnetar up``."""


class Cluster(Protocol):
    """One of several clusters."""

    service_url: str
    admin_url: str
    rest: Rest


class Member:
    """A cluster of ``magnetar up``."""

    def __init__(self, service_url: str, admin_url: str, security: Mapping[str, Any] | None = None) -> None:
        """Use the given ports, as the superuser if they are secured."""
        self.service_url = service_url
        self.admin_url = admin_url
        context = None if security is None else ssl.create_default_context(cafile=security["trust"])
        self.rest = Rest(admin_url, context=context)
        if security is not None:
            self.rest.authorize(Path(security["tokens"]["admin"]).read_text())


class Group:
    """Clusters by name, with common operations on them."""

    def __init__(self) -> None:
        """Begin without members."""
        self.members: dict[str, Cluster] = {}
        self._clients: dict[str, pulsar.Client] = {}

    def rest(self, name: str) -> Rest:
        """Return the cluster's admin API."""
        return self.members[name].rest

    def client(self, name: str) -> pulsar.Client:
        """Return the group's official client of the cluster; create it if necessary."""
        if name not in self._clients:
            self._clients[name] = connect(self.members[name].service_url)
        return self._clients[name]

    def disconnect(self) -> None:
        """Close all clients and admin connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for member in self.members.values():
            member.rest.close()

    def make_namespace(self, namespace: str, clusters: Sequence[str] = NAMES) -> None:
        """Create ``tenant/namespace`` in each of ``clusters``, replicated between them."""
        for name in clusters:
            self.make_local_namespace(name, namespace)
        for name in clusters:
            self.rest(name).post(f"namespaces/{namespace}/replication", list(clusters))

    def make_local_namespace(self, name: str, namespace: str) -> None:
        """Create ``tenant/namespace`` in one cluster, without replication."""
        rest = self.rest(name)
        for other, member in self.members.items():
            record = {"serviceUrl": member.admin_url, "brokerServiceUrl": member.service_url}
            rest.ensure(f"clusters/{other}", record)
        tenant = namespace.partition("/")[0]
        rest.ensure(f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": list(self.members)})
        rest.ensure(f"namespaces/{namespace}", {})


class Up(Group):
    """``magnetar up``, which restarts killed brokers and pipelines."""

    def __init__(self, directory: Path, names: Sequence[str] = NAMES, *arguments: str) -> None:
        """Start ``magnetar up``, and wait until it reports that it is ready."""
        super().__init__()
        base_port = free_base_port(len(names))
        options = ["--clusters", ",".join(names), "--data", str(directory / "data"), "--base-port", str(base_port)]
        command = [*MAGNETAR, "up", *options, "--no-profiles", "--output", "json", *arguments]
        self.process = ChildProcess(command, directory, "up")
        try:
            wait_until(self._says_ready, UP_TIMEOUT_S, what="magnetar up ready", interval_s=0.1)
        except BaseException:
            self.process.stop()
            raise
        self.ready = json.loads(self.process.output.read_text().splitlines()[0])
        for name, cluster in self.ready["clusters"].items():
            self.members[name] = Member(cluster["service_url"], cluster["admin_url"], self.ready.get("security"))

    def __enter__(self) -> Self:
        """Return the object; the context manager stops it at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop everything."""
        self.disconnect()
        self.process.stop()

    def make_namespace(self, namespace: str, clusters: Sequence[str] = NAMES) -> None:
        """Create ``tenant/namespace`` in the first of ``clusters``, and wait until the others have it."""
        rest, tenant = self.rest(clusters[0]), namespace.partition("/")[0]
        rest.ensure(f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": list(self.members)})
        rest.put(f"namespaces/{namespace}", {"replication_clusters": list(clusters)})
        for name in clusters:
            wait_until(partial(self._serves, name, namespace), UP_TIMEOUT_S, what=f"{namespace} in {name}")

    def _serves(self, name: str, namespace: str) -> bool:
        response = self.rest(name).request("GET", f"namespaces/{namespace}/replication")
        return response.is_success and name in response.json()

    def broker_pids(self, name: str) -> list[int]:
        """Return the processes of the cluster's broker: one, or none during a restart."""
        return find(self.process.pid, "magnetar", "broker", f"/{name}/")

    def pipeline_pids(self) -> list[int]:
        """Return the processes of the pipeline's driver: the Python program and its Java virtual machine."""
        return find(self.process.pid, "pipeline", "replicate") + find(self.process.pid, "java", "spark")

    def worker_pids(self) -> list[int]:
        """Return the Spark Python workers."""
        return find(self.process.pid, " pyspark.")

    def is_running(self) -> bool:
        """Return whether ``magnetar up`` itself runs."""
        return is_alive(self.process.pid)

    def _says_ready(self) -> bool:
        self.process.require_running()
        return "\n" in self.process.output.read_text()


class LocalClusters(Group):
    """Brokers without supervision, and a pipeline that the test starts."""

    broker: ClassVar[type[Broker]] = Broker

    def __init__(
        self, directory: Path, names: Sequence[str] = NAMES, settings: Mapping[str, object] | None = None
    ) -> None:
        """Choose ports; nothing runs yet."""
        super().__init__()
        self.directory = directory
        self.settings = dict(settings or {})
        self.brokers = {name: self.broker(directory / name, name, self.settings) for name in names}
        self.members = dict(self.brokers)
        self._pipeline: ChildProcess | None = None

    def __enter__(self) -> Self:
        """Start the brokers; if one fails, stop all of them."""
        try:
            for server in self.servers():
                server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop the pipeline and the brokers."""
        try:
            self.disconnect()
        finally:  # stop the processes even if a client fails to close
            self.stop_pipeline()
            for server in self.servers():
                server.stop()

    def servers(self) -> Sequence[Server]:
        """Return all brokers."""
        return list(self.brokers.values())

    def add(self, name: str) -> None:
        """Add one more cluster, whose broker does not run yet."""
        self.members[name] = self.brokers[name] = self.broker(self.directory / name, name, self.settings)

    def start_pipeline(
        self, *arguments: str, names: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the pipeline for the clusters ``names``, default: all; replication begins some seconds later."""
        served = ",".join(f"{name}={self.members[name].admin_url}" for name in names or self.members)
        command = [*MAGNETAR, "pipeline", "replicate", "--clusters", served, *arguments]
        self._pipeline = ChildProcess(command, self.directory, "pipeline", environment)

    def wait_for_pipeline(self) -> None:
        """Wait until the pipeline reports that it replicates."""
        pipeline = self._pipeline
        assert pipeline is not None
        wait_until(lambda: _READY in pipeline.output.read_text(), UP_TIMEOUT_S, what="the pipeline", interval_s=0.1)

    @property
    def pipeline_pid(self) -> int:
        """Return the process of the pipeline's Python program."""
        assert self._pipeline is not None
        return self._pipeline.pid

    def driver_pids(self) -> list[int]:
        """Return the processes of the pipeline's driver: the Python program and its Java virtual machine."""
        assert self._pipeline is not None
        return [self._pipeline.pid, *find(self._pipeline.pid, "java", "spark")]

    def serving_worker_pids(self) -> list[int]:
        """Return the pipeline's Spark Python workers with a connection to a broker."""
        assert self._pipeline is not None
        ports = {broker.binary_port for broker in self.brokers.values()}
        return [pid for pid in find(self._pipeline.pid, " pyspark.") if ports & connected_ports(pid)]

    def kill_worker(self) -> None:
        """Kill the youngest of the pipeline's Spark Python workers; wait for one if necessary."""
        assert self._pipeline is not None
        pid = self._pipeline.pid
        workers = wait_until(lambda: find(pid, " pyspark."), UP_TIMEOUT_S, what="a worker to kill", interval_s=0.1)
        os.kill(max(workers), signal.SIGKILL)

    def kill_pipeline(self) -> None:
        """Kill the pipeline's driver and all its child processes."""
        assert self._pipeline is not None
        self._pipeline.kill()
        self._pipeline = None

    def stop_pipeline(self) -> None:
        """Stop the pipeline if it runs."""
        if self._pipeline is not None:
            self._pipeline.stop()
            self._pipeline = None


def free_base_port(count: int) -> int:
    """Return a base port with free ports for ``count`` clusters of ``magnetar up``."""
    return free_ports(PORT_STEP * count)[0]
