"""Latency of geo-replication: three clusters of ``magnetar up`` with default settings, and the official client.

Two figures, each measured by separate processes to avoid mutual disturbance:

* *published to received*: from the time right before the producer in ewr sends a message to the return of ``receive``
  in jfk and in lga.
* *acknowledged to applied*: a second replicated subscription of the loaded topic acknowledges one message at a time in
  ewr. Then the mark-delete position of the subscription in jfk is polled every 2 ms with GET_LAST_MESSAGE_ID, the
  cheapest request that returns it, until it has advanced. The acknowledgement is sent directly by the protocol: the
  official Python client delays acknowledgements by up to 100 ms for grouping, which is measured separately.

All clocks are the machine's monotonic clock. The table goes to standard output, followed by one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import sys
import time
from array import array
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pulsar
from rich.console import Console
from rich.table import Table

from bench.end_to_end import DRAIN_TIMEOUT_S, STAMP, Load, Samples, consume, produce
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.clusters import NAMES, Up
from tests.kit.measure import describe_machine, percentiles
from tests.kit.messages import connect
from tests.kit.processes import cpu_seconds
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Event

SOURCE, TARGETS = NAMES[0], NAMES[1:]
NAMESPACE = "bench/latency"
TOPIC = f"persistent://{NAMESPACE}/loaded"
POLL_S = 0.002
ACKNOWLEDGEMENT_PAUSE_S = (0.05, 0.15)
"""Bounds of the random pause between two acknowledgements, to avoid synchronization with the links' 50 ms interval."""

HEAD_START_S = 2.0
"""Seconds of load before the first acknowledgement is measured, so that its message is in every cluster."""

REPORT_EVERY_S = 5.0
GOALS_MS = {
    "published to received": {"p50": 10, "p99": 60},
    "acknowledged to applied": {"p50": 75, "p99": 200},
}
"""The project's targets in milliseconds."""

Message = TypeVar("Message")


class MarkDelete:
    """The mark-delete position of a subscription in the target, read by a consumer without permits."""

    def __init__(self, url: str, subscription: str) -> None:
        """Subscribe without granting permits."""
        self._connection = RawConnection.connected(url)
        self._connection.subscribe(TOPIC, subscription, replicate_subscription_state=True)

    def position(self) -> tuple[int, int]:
        """Request the position."""
        answer = self._connection.request("GET_LAST_MESSAGE_ID", "GET_LAST_MESSAGE_ID_RESPONSE", consumer_id=1)
        position = answer.consumer_mark_delete_position
        return position.ledgerId, position.entryId

    def moved_from(self, before: tuple[int, int], timeout_s: float) -> bool:
        """Wait until the position differs from ``before``; return False after the time limit."""
        deadline = time.monotonic() + timeout_s
        while self.position() == before:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def acknowledge_by_protocol(urls: dict[str, str], stop: Event, results: multiprocessing.Queue[Samples]) -> None:
    """Acknowledge messages one by one in the source; report the time until the target has applied each."""
    target = MarkDelete(urls[TARGETS[0]], "acknowledged")
    source = RawConnection.connected(urls[SOURCE])
    source.subscribe(TOPIC, "acknowledged", replicate_subscription_state=True)

    def receive() -> pb.MessageIdData:
        source.flow(1)
        message_id: pb.MessageIdData = source.expect("MESSAGE").message_id
        return message_id

    def acknowledge(message_id: pb.MessageIdData) -> None:
        source.send("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message_id], request_id=7)

    results.put({"role": "acknowledged", "ms": _time_acknowledgements(receive, acknowledge, target, stop)})


def acknowledge_by_client(urls: dict[str, str], stop: Event, results: multiprocessing.Queue[Samples]) -> None:
    """Acknowledge with the official client, as ``acknowledge_by_protocol``."""
    target = MarkDelete(urls[TARGETS[0]], "acknowledged-by-client")
    client = connect(urls[SOURCE])
    consumer = client.subscribe(
        TOPIC,
        "acknowledged-by-client",
        pulsar.ConsumerType.Shared,
        receiver_queue_size=10,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )
    samples = _time_acknowledgements(consumer.receive, consumer.acknowledge, target, stop)
    client.close()
    results.put({"role": "acknowledged by client", "ms": samples})


def _time_acknowledgements(
    receive: Callable[[], Message], acknowledge: Callable[[Message], None], target: MarkDelete, stop: Event
) -> array[float]:
    chance = random.Random(1)
    samples = array("d")
    stop.wait(HEAD_START_S)
    while not stop.wait(chance.uniform(*ACKNOWLEDGEMENT_PAUSE_S)):
        message = receive()
        before = target.position()
        started = time.monotonic_ns()
        acknowledge(message)
        if not target.moved_from(before, DRAIN_TIMEOUT_S):
            break
        samples.append((time.monotonic_ns() - started) / 1e6)
    return samples


def measure(up: Up, options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the load; return all figures."""
    urls = {name: up.members[name].service_url for name in NAMES}
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Samples] = context.Queue()
    stop = context.Event()
    load = Load(TOPIC, options.rate, options.seconds, options.size)

    def start(target: Callable[..., None], *arguments: object) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=target, args=(*arguments, results), daemon=True)
        process.start()
        return process

    readies = {name: context.Event() for name in TARGETS}
    processes = [start(consume, name, urls[name], load, readies[name]) for name in TARGETS]
    for ready in readies.values():
        ready.wait(60)
    pipeline_pid = up.ready["pipeline"]["pid"]
    broker_pids = {name: up.broker_pids(name)[0] for name in NAMES}
    cpu_before = cpu_seconds(pipeline_pid)
    brokers_before = {name: cpu_seconds(pid) for name, pid in broker_pids.items()}
    started = time.monotonic()
    processes.append(start(produce, urls[SOURCE], load))
    processes.append(start(acknowledge_by_protocol, urls, stop))
    processes.append(start(acknowledge_by_client, urls, stop))
    while (elapsed := time.monotonic() - started) < options.seconds:
        time.sleep(min(REPORT_EVERY_S, options.seconds - elapsed))
        busy = (cpu_seconds(pipeline_pid) - cpu_before) / (time.monotonic() - started)
        elapsed = time.monotonic() - started
        say(f"{elapsed:5.0f} of {options.seconds:g} s at {options.rate:g} msg/s; pipeline {busy:.0%} of a core")
    took = time.monotonic() - started
    cpu = {"pipeline": (cpu_seconds(pipeline_pid) - cpu_before) / took}
    cpu |= {f"broker {name}": (cpu_seconds(pid) - brokers_before[name]) / took for name, pid in broker_pids.items()}
    stop.set()
    collected = {samples["role"]: samples for samples in (results.get(timeout=120) for _ in processes)}
    return {"collected": collected, "cpu_busy": cpu}


def idle_cpu(up: Up, seconds: float) -> float:
    """Return the pipeline's processor usage, in cores, without traffic."""
    pid = up.ready["pipeline"]["pid"]
    before, started = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - started)


def prepare(up: Up) -> None:
    """Create the namespace, warm up the links, and wait until every cluster has the warm-up messages."""
    up.make_namespace(NAMESPACE)
    warm_up = 100
    producer = up.client(SOURCE).create_producer(TOPIC)
    for number in range(warm_up):
        producer.send(STAMP.pack(number, 0))
    producer.close()
    path = f"persistent/{NAMESPACE}/loaded/internalStats"

    def has_all(name: str) -> bool:
        response = up.rest(name).request("GET", path)
        return bool(response.is_success and response.json()["numberOfEntries"] >= warm_up)

    for name in TARGETS:
        wait_until(partial(has_all, name), 120, what=f"warm-up in {name}", interval_s=0.1)


def report(
    options: argparse.Namespace, machine: dict[str, object], figures: dict[str, Any], idle: float
) -> dict[str, Any]:
    """Return all figures as one JSON object."""
    collected = figures["collected"]
    received = array("d", [value for name in TARGETS for value in collected[name]["ms"]])
    milliseconds = {
        "published to receipt": percentiles(collected["producer"]["ms"]),
        "published to received": percentiles(received),
        "acknowledged to applied": percentiles(collected["acknowledged"]["ms"]),
        "acknowledge() of the client to applied": percentiles(collected["acknowledged by client"]["ms"]),
    }
    return {
        "figure": "geo_latency",
        "machine": machine,
        "settings": "defaults: receipt after fdatasync (journalSyncData=true), progress interval 50 ms",
        "clusters": len(NAMES),
        "rate": options.rate,
        "rate_reached": round(collected["producer"]["rate"], 1),
        "seconds": options.seconds,
        "message_bytes": options.size,
        "published": collected["producer"]["published"],
        "missing": {name: collected[name]["missing"] for name in TARGETS},
        "repeated": {name: collected[name]["repeated"] for name in TARGETS},
        "acknowledgements_measured": len(collected["acknowledged"]["ms"]),
        "milliseconds": {
            name: {key: round(value, 2) for key, value in row.items()} for name, row in milliseconds.items()
        },
        "cpu_busy_cores": {name: round(value, 3) for name, value in figures["cpu_busy"].items()},
        "pipeline_cpu_idle_cores": round(idle, 3),
        "goals_ms": GOALS_MS,
    }


def print_table(found: dict[str, Any]) -> None:
    """Print the figures for people."""
    load = f"{found['rate_reached']:g} msg/s of {found['message_bytes']} B for {found['seconds']:g} s"
    title = f"{load}, {found['clusters']} clusters"
    table = Table("milliseconds", "p50", "p90", "p99", "p99.9", "max", "goal", title=title)
    for name, row in found["milliseconds"].items():
        goal = ", ".join(f"{key} ≤ {value}" for key, value in GOALS_MS.get(name, {}).items())
        table.add_row(name, *(f"{value:.1f}" for value in row.values()), goal)
    console = Console(width=110)
    console.print(table)
    console.print("machine: " + ", ".join(f"{key} {value}" for key, value in found["machine"].items()), highlight=False)
    console.print(f"settings: {found['settings']}", highlight=False)
    busy = ", ".join(f"{name} {value:.0%}" for name, value in found["cpu_busy_cores"].items())
    console.print(f"CPU of a core: busy {busy}; pipeline idle {found['pipeline_cpu_idle_cores']:.1%}", highlight=False)
    console.print(f"missing {found['missing']}, repeated {found['repeated']}", highlight=False)


def main() -> int:
    """Run the benchmark; return 1 if a message was lost or repeated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the load")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a message")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="length of the idle measurement: a lease")
    parser.add_argument("--data", type=Path, default=Path("build/bench/geo_latency"), help="directory of all data")
    options = parser.parse_args()
    shutil.rmtree(options.data, ignore_errors=True)
    options.data.mkdir(parents=True)
    words = Console(stderr=True)

    def say(text: str) -> None:
        words.print(text, highlight=False)

    machine = describe_machine(options.data)
    say("starting three clusters and the pipeline")
    with Up(options.data) as up:
        prepare(up)
        figures = measure(up, options, say)
        say(f"idle for {options.idle_seconds:g} s")
        idle = idle_cpu(up, options.idle_seconds)
    found = report(options, machine, figures, idle)
    print_table(found)
    print(json.dumps(found))
    return int(any(found["missing"].values()) or any(found["repeated"].values()))


if __name__ == "__main__":
    sys.exit(main())
