"""One run of the demo of a migration, from an empty directory to the report."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from magnetar.base.names import NamespaceName, TopicName
from magnetar.demo.account import DemoError
from magnetar.demo.clusters import POLL_SECONDS, Clusters, start_clusters
from magnetar.demo.moving.account import BEFORE, PHASES, ROLLBACK, SWITCH, Account
from magnetar.demo.moving.report import CLEAN, Move, Report
from magnetar.demo.moving.traffic import SUBSCRIPTIONS, Traffic
from magnetar.ops.layout import LOOPBACK, MAGNETAR, hold
from magnetar.ops.processes import Command, Process, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

EWR, JFK = CLUSTERS = ("ewr", "jfk")
TENANT: Final = "shop"
NAMESPACE: Final = "shop/orders"
COMMAND_TIMEOUT_S: Final = 300.0
SETTLE_S: Final = 60.0
"""Time limit for the last messages to arrive."""

PHASE_S: Final = 5.0
"""Time with traffic before a move, and after it."""


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options."""

    directory: Path
    """Directory for ``migration.json``, and for the clusters' data in ``migration-data``, which is emptied first."""
    topics: int = 10
    rate: float = 200.0
    """Messages published per second, over all topics."""
    base_port: int = 16650


def run(options: Options, tell: Callable[[str], None]) -> Report:
    """Run the demo and write ``migration.json``; ``tell`` is called with each step."""
    data = options.directory.resolve() / "migration-data"
    with hold(data):  # fails while the clusters of an earlier run use it
        pass
    shutil.rmtree(data)
    (data / "logs").mkdir(parents=True)
    with ExitStack() as stack:
        tell("starting two clusters")
        clusters = start_clusters(data, options.base_port, keep=False, names=CLUSTERS)
        stack.callback(clusters.stop)
        report = _Story(clusters, options, data, tell, stack).run()
    text = json.dumps(report.to_json(), indent=2)
    (options.directory / "migration.json").write_text(text + "\n", encoding="utf-8")
    return report


class _Story:
    """The steps of a run."""

    def __init__(
        self, clusters: Clusters, options: Options, data: Path, tell: Callable[[str], None], stack: ExitStack
    ) -> None:
        self._clusters = clusters
        self._options = options
        self._data = data
        self._tell = tell
        self._stack = stack
        self._account = Account()
        self._topics = [f"persistent://{NAMESPACE}/{number}" for number in range(options.topics)]

    def run(self) -> Report:
        """Take all steps; raises DemoError if one fails."""
        began = time.monotonic()
        self._create_topics()
        self._tell("clients publish and consume by the lookup service")
        traffic = Traffic(self._lookup(), self._topics, self._options.rate, self._account)
        self._stack.callback(traffic.close)
        self._tell(f"{JFK} gets the metadata, messages and acknowledgements")
        self._migrate("run")
        self._tell("comparing both clusters")
        self._migrate("verify")
        there = self._move("switch", SWITCH, f"switching to {JFK}")
        there_audit = self._audit()
        back = self._move("rollback", ROLLBACK, f"switching back to {EWR}")
        self._tell("the last messages arrive")
        traffic.stop(PHASES, SETTLE_S)
        traffic.check()
        if lost := self._account.lost(BEFORE, tuple(SUBSCRIPTIONS)):
            message = f"{lost} messages from before the switch were lost"
            raise DemoError(message)
        back_audit = self._audit()
        return Report(
            topics=len(self._topics),
            switch=self._report(SWITCH, there, there_audit),
            rollback=self._report(ROLLBACK, back, back_audit),
            seconds=round(time.monotonic() - began, 1),
        )

    def _create_topics(self) -> None:
        """Create the tenant in the source; the other cluster may know its metadata, but serves none of it."""
        admin = self._clusters.admin(EWR)
        admin.tenants.create(TENANT, [EWR])
        admin.namespaces.create(NamespaceName.parse(NAMESPACE), [EWR])
        for topic in self._topics:
            admin.topics.create(TopicName.parse(topic))

    def _lookup(self) -> str:
        """Start a lookup service, and return its URL."""
        port, web_port = _free_port(), _free_port()
        urls = [part for name in CLUSTERS for part in ("--broker-url", self._clusters.admin(name).url)]
        arguments = [*MAGNETAR, "lookup", *urls, "--host", LOOPBACK, "--port", str(port), "--web-port", str(web_port)]
        arguments += ["--data", str(self._data / "lookup"), "--default-cluster", EWR]
        log = self._data / "logs" / "lookup.log"
        process = Process(Command("magnetar lookup", arguments, self._data, log))
        self._stack.callback(process.kill_group)
        while not _accepts(port):
            if process.poll() is not None:
                message = f"magnetar lookup ended:\n{tail(log)}"
                raise DemoError(message)
            time.sleep(POLL_SECONDS)
        return f"pulsar://{LOOPBACK}:{port}"

    def _move(self, command: str, phase: str, words: str) -> dict[str, Any]:
        """Switch the clients, with traffic before and after it; return the figures of the command."""
        time.sleep(PHASE_S)
        self._tell(words)
        self._account.phase = phase
        found = self._migrate(command)
        time.sleep(PHASE_S)
        return found

    def _migrate(self, command: str) -> dict[str, Any]:
        sides = [f"--from={self._clusters.admin(EWR).url}", f"--to={self._clusters.admin(JFK).url}"]
        return _output("migrate", command, TENANT, *sides, "--state", str(self._data / "migration"))

    def _audit(self) -> str | list[Mapping[str, Any]]:
        self._tell("comparing both clusters")
        urls = ",".join(f"{name}={self._clusters.admin(name).url}" for name in CLUSTERS)
        places = ("--namespaces", NAMESPACE, "--state", str(self._data / "audit"))
        found = _output("pipeline", "audit", "--clusters", urls, *places)
        return list(found["findings"]) or CLEAN

    def _report(self, phase: str, found: dict[str, Any], audit: str | list[Mapping[str, Any]]) -> Move:
        account, redelivered = self._account, found["redelivered_unacknowledged"]
        times = found["unavailable_ms"]
        return Move(
            messages=account.messages(phase),
            lost=account.lost(phase, tuple(SUBSCRIPTIONS)),
            repeated=max(0, account.repeated[phase] - (redelivered or 0)),
            out_of_order=account.out_of_order[phase],
            redelivered_unacknowledged=redelivered,
            unavailable_ms={"p50": times["p50"], "p99": times["p99"]},
            released=len(found["released"]),
            audit=audit,
        )


def _output(*arguments: str) -> dict[str, Any]:
    """Run a command of magnetar, and return what it prints; a finding or a released topic is no failure here."""
    line = [*MAGNETAR, *arguments, "--output", "json"]
    done = subprocess.run(line, capture_output=True, check=False, text=True, timeout=COMMAND_TIMEOUT_S)  # noqa: S603 - our own command
    if not done.stdout.strip():
        message = f"magnetar {' '.join(arguments[:2])} failed:\n{done.stderr[-2000:]}"
        raise DemoError(message)
    return dict(json.loads(done.stdout))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
