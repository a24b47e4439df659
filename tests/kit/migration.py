"""``magnetar migrate`` for a tenant, as a process."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.kit.child import ChildProcess
from tests.kit.clusters import MAGNETAR, UP_TIMEOUT_S, LocalClusters
from tests.kit.lookup import Instance
from tests.kit.processes import is_alive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.kit.clusters import Cluster

COMMAND_TIMEOUT_S = 600.0
_STATELESS, _LOCAL = ("plan",), ("status",)
"""Commands without ``--state``, and without clusters."""


@contextmanager
def before_a_move(
    directory: Path, namespace: str, prepare: Callable[[LocalClusters], None], names: Sequence[str] = ("ewr", "jfk")
) -> Iterator[LocalClusters]:
    """Run clusters with a pipeline. The first one alone has the namespace, in which ``prepare`` creates topics."""
    with LocalClusters(directory, names) as running:
        first, *others = names
        running.make_local_namespace(first, namespace)
        for name in others:
            running.make_local_namespace(name, "other/namespace")  # registers the others
        prepare(running)
        running.start_pipeline()
        running.wait_for_pipeline()
        yield running


@contextmanager
def lookup_service(clusters: LocalClusters) -> Iterator[str]:
    """Run a lookup service of all clusters; return its service URL."""
    urls = [member.admin_url for member in clusters.members.values()]
    lookup = Instance(clusters.directory / "lookup", urls).start()
    try:
        yield lookup.service_url
    finally:
        lookup.kill()


class Migrator:
    """The migration of a tenant from a cluster to another, with its state in a directory."""

    def __init__(
        self, tenant: str, source: Cluster, target: Cluster, directory: Path, *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> None:
        """Use ``directory`` for the state and for the output of killed commands."""
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.state = directory / "state"
        self._tenant = tenant
        self._sides = [f"--from={source.admin_url}", f"--to={target.admin_url}"]
        self._timeout_s = timeout_s

    def run(self, command: str, *options: str, expected: int = 0) -> Any:  # noqa: ANN401 - any JSON
        """Run a command, and return its output, or its errors without an output."""
        line = [*self._line(command), *options]
        done = subprocess.run(line, capture_output=True, check=False, text=True, timeout=self._timeout_s)
        assert done.returncode == expected, (done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def start(self, command: str, name: str) -> ChildProcess:
        """Start a command; its output goes to files with this name."""
        return ChildProcess(self._line(command), self.directory, name)

    def kill_after(self, command: str, records: int) -> None:
        """Run a command, and kill it when it has added some records to the journal, or at its end."""
        before = self._records()
        process = self.start(command, f"{command}-killed-after-{records}")
        wait_until(
            lambda: not is_alive(process.pid) or self._records() >= before + records,
            UP_TIMEOUT_S,
            what=f"{records} records",
            interval_s=0.005,
        )
        process.kill()

    def _records(self) -> int:
        journal = self.state / "journal"
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    def _line(self, command: str) -> list[str]:
        sides = [] if command in _LOCAL else self._sides
        state = [] if command in _STATELESS else ["--state", str(self.state)]
        return [*MAGNETAR, "migrate", command, self._tenant, *sides, *state, "--output", "json"]
