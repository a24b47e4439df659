"""The links, the jobs and the data source on a standalone cluster of Spark whose workers and drivers are killed.

Executors have Python and PySpark only. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from magnetar.pipeline.driver.settings import PACKAGE_DIRECTORY
from tests.chaos.mesh import KEPT_FOR_EVER, SEED, say
from tests.geo.helpers import log_of
from tests.jobs.archives import SETTINGS, rows
from tests.kit.background import Background
from tests.kit.child import ChildProcess
from tests.kit.clusters import MAGNETAR, LocalClusters
from tests.kit.messages import connect, numbered, publish_in_batches
from tests.kit.processes import descendants
from tests.kit.spark_cluster import SparkCluster
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = ("ewr", "jfk", "lga")
LINKED = NAMES[:2]
NAMESPACE = "chaos/spark"
COUNT = 50_000
RATE = 50
"""Messages per second from each cluster."""

LEASE_S = 30
COMMAND_TIMEOUT_S = 900.0
RECOVERY_TIMEOUT_S = 400.0
"""Time limit in seconds for a recovery, in which executors unpack the package, on a busy machine."""

DURING_S = (0.0, 8.0)
"""Range of the time between two kills."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3_000)]


@dataclass(frozen=True)
class World:
    """Two linked clusters and a third one, and a Spark cluster."""

    directory: Path
    clusters: LocalClusters
    spark: SparkCluster
    package: Path
    chance: random.Random

    @property
    def options(self) -> list[str]:
        """The options of a command that runs on the Spark cluster."""
        work = ["--work-dir", str(self.directory / "work"), "--output", "json"]
        return ["--master", self.spark.master, "--package", str(self.package), *work]

    def named(self, *names: str) -> str:
        """Return clusters with their admin URLs."""
        return ",".join(f"{name}={self.clusters.members[name].admin_url}" for name in names)

    def topic(self, name: str) -> str:
        """Return the name of a topic."""
        return f"persistent://{NAMESPACE}/{name}"

    def fill(self, topic: str) -> None:
        """Publish numbers to a new topic of the first cluster, in batches."""
        publish_in_batches(self.clusters.client("ewr"), topic, numbered(COUNT), 100)

    def received(self, topic: str) -> int:
        """Return the number of messages that a topic of the first cluster got."""
        return int(self.clusters.rest("ewr").get(f"{topic.replace('://', '/')}/stats")["msgInCounter"])

    def run(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Run a command of the pipeline to its end; return its status, its report and its log."""
        command = [*MAGNETAR, "pipeline", *arguments]
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=COMMAND_TIMEOUT_S)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def interrupt(self, verb: str, *arguments: str, has_begun: Callable[[], object]) -> None:
        """Start a job, kill a worker after it has begun, start the worker again, and kill the driver."""
        job = ChildProcess([*MAGNETAR, "pipeline", verb, *arguments], self.directory, f"{verb}-interrupted")

        def is_running() -> bool:
            job.require_running()
            return bool(has_begun())

        wait_until(is_running, RECOVERY_TIMEOUT_S, what=f"{verb} to begin")
        number = self.chance.randrange(2)
        self.spark.kill_worker(number)
        self.spark.start_worker(number)
        time.sleep(self.chance.uniform(*DURING_S))
        say(f"{verb}: worker {number} was killed, then the driver ({job.exit_status=}): {progress(job.log)}")
        job.kill()


def progress(log: Path) -> str:
    """Return the last line of a job's progress."""
    return next((line for line in reversed(log.read_text().splitlines()) if line.startswith("{")), "")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED}")
    directory = tmp_path_factory.mktemp("spark")
    package = directory / "package.tar.gz"
    subprocess.run([*MAGNETAR, "pipeline", "package", str(package)], check=True)
    with SparkCluster(directory) as spark, LocalClusters(directory, NAMES, SETTINGS) as clusters:
        clusters.make_namespace(NAMESPACE, LINKED)
        for name in LINKED:
            clusters.rest(name).post(f"namespaces/{NAMESPACE}/retention", KEPT_FOR_EVER)
        yield World(directory, clusters, spark, package, random.Random(SEED))


def test_executors_without_the_package_are_named(world: World) -> None:
    options = ["--master", world.spark.master, "--work-dir", str(world.directory / "work")]
    status, _, log = world.run("replicate", "--clusters", world.named(*LINKED), *options)
    assert status == 1
    assert "error: Python on an executor (python3) has no module magnetar\nhint: magnetar pipeline package" in log


def test_links_that_do_not_fit_are_refused(world: World) -> None:
    wait = ["--conf", "spark.scheduler.maxRegisteredResourcesWaitingTime=20s"]
    status, _, log = world.run("replicate", "--clusters", world.named(*NAMES), *world.options, *wait)
    assert status == 1
    assert "the links need 6: tasks of links wait for each other" in log


class Publisher(Background):
    """Publishes numbers in one cluster."""

    def __init__(self, world: World, origin: str) -> None:
        """Start publishing."""
        super().__init__()
        self.origin = origin
        self.topic = world.topic(f"links-{origin}")
        self.published = 0
        self._client = connect(world.clusters.members[origin].service_url)
        self.begin()

    def work(self) -> None:
        """Publish until the end."""
        producer = self._client.create_producer(self.topic)
        while not self.stopping.wait(1 / RATE):
            producer.send(b"%d" % self.published)
            self.published += 1
        self._client.close()


class Arrivals:
    """The log of a topic in another cluster."""

    def __init__(self, client: pulsar.Client, publisher: Publisher) -> None:
        """Read from the beginning."""
        self._publisher = publisher
        self._reader = client.create_reader(publisher.topic, pulsar.MessageId.earliest)
        self.newest = -1

    def wait(self, what: str) -> float:
        """Wait for a message that is published from now on; return the time that it takes."""
        wanted, began = self._publisher.published, time.monotonic()
        wait_until(
            partial(self._reaches, wanted), RECOVERY_TIMEOUT_S, what=f"{what}: {wanted} of {self._publisher.origin}"
        )
        return time.monotonic() - began

    def _reaches(self, number: int) -> bool:
        while self.newest < number:
            try:
                self.newest = int(self._reader.read_next(100).data())
            except pulsar.Timeout:
                return False
        return True


def test_links_lose_and_repeat_nothing(world: World) -> None:
    clusters, arguments = world.clusters, [*world.options, "--lease-seconds", str(LEASE_S)]
    publishers = [Publisher(world, name) for name in LINKED]
    frozen: list[int] = []
    try:
        clusters.start_pipeline(*arguments, names=LINKED)
        others = dict(zip(LINKED, reversed(LINKED), strict=True))
        arrivals = [Arrivals(clusters.client(others[each.origin]), each) for each in publishers]

        def recover(what: str) -> None:
            say(f"{what}: {', '.join(f'{each.wait(what):.1f} s' for each in arrivals)}")

        recover("start")
        say(f"memory in MB: driver {memory(clusters.driver_pids())}, executors {memory(executors(world.spark))}")
        for number in range(2):
            world.spark.kill_worker(number)
            recover(f"one slot, after the kill of worker {number}")
            world.spark.start_worker(number)
        recover("two slots")
        frozen = world.spark.python_pids()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        clusters.kill_pipeline()
        clusters.start_pipeline(*arguments, names=LINKED)
        recover("another driver, while tasks of the killed one are stopped")
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        recover("tasks of the killed driver continued")
    finally:
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for publisher in publishers:
            publisher.end()
    try:
        for publisher in publishers:
            wanted = numbered(publisher.published)
            for name in LINKED:
                has_all = partial(has_at_least, clusters, name, publisher.topic, len(wanted))
                wait_until(has_all, RECOVERY_TIMEOUT_S, what=f"{publisher.topic} in {name}", interval_s=0.5)
                assert log_of(clusters, name, publisher.topic) == wanted, f"{publisher.topic} in {name}"
    finally:
        clusters.stop_pipeline()
    audited(world, [publisher.topic for publisher in publishers])


def has_at_least(clusters: LocalClusters, name: str, topic: str, count: int) -> bool:
    return len(log_of(clusters, name, topic)) >= count


def executors(spark: SparkCluster) -> list[int]:
    """Return all processes of executors."""
    return [pid for each in spark.executor_pids() for pid in (each, *descendants(each))]


def memory(pids: list[int]) -> list[int]:
    """Return the proportional set sizes of processes in MB."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            found.append(sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) // 1024)
    return found


def audited(world: World, topics: list[str]) -> None:
    """Audit topics with kills, and check that no difference is found."""
    state = ["--state", str(world.directory / "state"), "--settle-seconds", "1"]
    arguments = ["--clusters", world.named(*LINKED), "--topics", ",".join(topics), *state, *world.options]
    world.interrupt("audit", *arguments, has_begun=lambda: list((world.directory / "state").glob("scan-*/part-*")))
    status, report, log = world.run("audit", *arguments)
    assert (status, report.get("verdict"), report.get("findings")) == (0, "equal", []), log


def test_an_archive_and_its_restoration_have_each_message_once(world: World) -> None:
    topic, copy, place = world.topic("archived"), world.topic("restored"), world.directory / "archive"
    world.fill(topic)
    arguments = ["--cluster", world.named("ewr"), "--topics", topic, "--directory", str(place), *world.options]
    world.interrupt("archive", *arguments, has_begun=lambda: list((place / "_magnetar").glob("staging/*/*")))
    status, _, log = world.run("archive", *arguments)
    assert status == 0, log
    assert [bytes(row["value"]) for row in rows(place)] == numbered(COUNT)
    world.clusters.client("ewr").create_producer(copy).close()
    arguments = ["--cluster", world.named("ewr"), "--to", copy, "--directory", str(place), *world.options]
    world.interrupt("restore", *arguments, has_begun=lambda: world.received(copy))
    status, report, log = world.run("restore", *arguments)
    assert status == 0, log
    (each,) = report["topics"]
    assert each["restoredBefore"] + report["messages"] == COUNT
    assert log_of(world.clusters, "ewr", copy) == numbered(COUNT)


class Query:
    """A query of a user's program; the program ships the package with Spark's own settings."""

    def __init__(self, world: World, verb: str, topics: tuple[str, str]) -> None:
        """Prepare the query of two topics; ``start`` starts it."""
        broker = world.clusters.members["ewr"]
        place = str(world.directory / "checkpoint")
        archive = f"spark.archives={world.package}#{PACKAGE_DIRECTORY}"
        conf = (f"spark.master={world.spark.master}", archive, f"spark.executorEnv.PYTHONPATH={PACKAGE_DIRECTORY}")
        arguments = [verb, broker.service_url, broker.admin_url, *topics, place, *conf]
        self._command = [sys.executable, "-m", "tests.chaos.cluster_query", *arguments]
        self._environment = {"PYSPARK_PYTHON": "python3", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self._directory = world.directory
        self._verb = verb

    def start(self) -> ChildProcess:
        """Start a driver."""
        return ChildProcess(self._command, self._directory, f"query-{self._verb}", self._environment)


def test_the_data_source_reads_and_writes_each_message_once(world: World) -> None:
    source, target = topics = world.topic("read"), world.topic("written")
    world.fill(source)
    world.clusters.client("ewr").create_producer(target).close()
    reading = Query(world, "count", topics).start()
    wait_until(lambda: reading.exit_status is not None, COMMAND_TIMEOUT_S, what="the count")
    assert (reading.exit_status, reading.output.read_text()) == (0, f"[{COUNT}, {COUNT}]\n"), reading.log.read_text()
    copying = Query(world, "copy", topics)

    def progresses(driver: ChildProcess, beyond: int) -> bool:
        driver.require_running()
        return world.received(target) > beyond

    driver = copying.start()
    try:
        for number, kind in enumerate(("worker", "driver", "worker")):
            wait_until(
                partial(progresses, driver, world.received(target)), RECOVERY_TIMEOUT_S, what=f"progress before {kind}"
            )
            time.sleep(world.chance.uniform(0.0, 3.0))
            say(f"{world.received(target)} messages written: kill a {kind}")
            if kind == "worker":
                world.spark.kill_worker(number % 2)
                world.spark.start_worker(number % 2)
            else:
                driver.kill()
                driver = copying.start()
        wait_until(lambda: world.received(target) >= COUNT, COMMAND_TIMEOUT_S, what="all messages")
        time.sleep(2)
    finally:
        driver.kill()
    counts = Counter(log_of(world.clusters, "ewr", target))
    assert not [number for number in numbered(COUNT) if not counts[number]], "lost"
    assert counts.total() == COUNT, "repeated"
