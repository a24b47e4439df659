"""Hops of a message between two clusters: how long each process on its way keeps it.

All connections are on this machine, so a packet socket on the loopback interface sees each message as it leaves a
process. Spark's connections to its Python processes are Unix sockets, so ``bench/tracing`` notes the time at which the
reader passes a message on, and at which the writer gets it. It needs Linux, and root or CAP_NET_RAW.

A message has its number and the time right before its producer sends it; consecutive sightings of one number are the
hops. The time of a process begins when the message leaves the process before it, so it contains the wake-up, and in a
broker the sync of the log.

Messages have 1 KB and are not batched; receipts follow the sync. One lease of the pipeline covers the run. Messages
that share a packet with others count, those that are cut in two by the end of a packet do not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.end_to_end import MARK, STAMP, Load, Samples, consume, produce
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.measure import describe_machine, percentiles
from tests.kit.processes import cpu_seconds, descendants, local_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SOURCE, TARGET = NAMES[:2]
NAMESPACE = "bench/hops"
TOPIC = f"persistent://{NAMESPACE}/t"
SIZE = 1000
WARM_UP_S = 5.0
TIMEOUT_S = 120.0
RECEIVE_BYTES = 64 << 20
"""Size of the buffer of the packet socket."""

_ETHERNET_IPV4 = 0x0800
_TCP = 6
_PORTS = struct.Struct(">HH")
_TIMESTAMP = struct.Struct("@qq")
_SO_TIMESTAMPNS = 35
_OUTGOING = 4
"""Type of a packet that is on its way out. Each packet on the loopback interface comes in, too."""


Times = dict[tuple[str, ...], dict[str, list[float]]]
"""Milliseconds in each process, by process, for each path that messages took."""


class Sighting(NamedTuple):
    """A message on its way between two processes."""

    number: int
    at_ns: int
    """Time on the monotonic clock."""
    target: int | str
    """The process that gets the message: its port, or its name."""
    sent_ns: int | None = None
    """Time right before the producer sent the message, if it is known here."""


def sightings_in(packet: bytes, at_ns: int) -> Iterator[Sighting]:
    """Yield the messages in an IPv4 packet; none if it is not TCP."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != _TCP:
        return
    at = (packet[0] & 0xF) * 4
    _, target_port = _PORTS.unpack_from(packet, at)
    at = packet.find(MARK, at)
    while at >= STAMP.size:
        number, sent_ns = STAMP.unpack_from(packet, at - STAMP.size)
        yield Sighting(number, at_ns, target_port, sent_ns)
        at = packet.find(MARK, at + len(MARK))


def hops(sightings: Iterable[Sighting], owners: Mapping[int, str], received_ms: Mapping[int, float]) -> Times:
    """Return the times of the messages that were received.

    ``owners`` are processes by port; other ports are those of the producer and the consumer. ``received_ms`` are the
    times from sending to receiving, by number. A message that was not received, or not seen in a
    packet, does not count.
    """
    by_number: defaultdict[int, list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        by_number[sighting.number].append(sighting)
    found: Times = {}
    for number, seen in by_number.items():
        seen.sort(key=lambda each: each.at_ns)
        sent_ns = seen[0].sent_ns
        if number not in received_ms or sent_ns is None:
            continue
        names = (each.target if isinstance(each.target, str) else owners.get(each.target, "consumer") for each in seen)
        path = ("producer", *names)
        times = [0.0, *((each.at_ns - sent_ns) / 1e6 for each in seen), received_ms[number]]
        kept = found.setdefault(path, {f"{step} {name}": [] for step, name in enumerate(path, 1)})
        for each, before, after in zip(kept.values(), times, times[1:], strict=False):
            each.append(after - before)
    return found


class Sniffer:
    """A thread that looks at the packets of the loopback interface."""

    def __init__(self) -> None:
        """Open the socket; raises PermissionError without the right to do so."""
        self.sightings: list[Sighting] = []
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERNET_IPV4))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.bind(("lo", _ETHERNET_IPV4))
        self._socket.settimeout(0.2)
        self._ahead_ns = time.time_ns() - time.monotonic_ns()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="sniffer", daemon=True)
        self._thread.start()

    def stop(self) -> list[Sighting]:
        """Stop; return what was seen."""
        self._is_over = True
        self._thread.join()
        self._socket.close()
        return self.sightings

    def _run(self) -> None:
        while not self._is_over:
            try:
                packet, ancillary, _, address = self._socket.recvmsg(1 << 17, 64)
            except TimeoutError:
                continue
            if address[2] == _OUTGOING or MARK not in packet:
                continue
            seconds, nanoseconds = _TIMESTAMP.unpack(ancillary[0][2])
            self.sightings += sightings_in(packet, seconds * 10**9 + nanoseconds - self._ahead_ns)


def owners_of(clusters: LocalClusters) -> dict[int, str]:
    """Return the brokers and the pipeline's Python processes by their ports."""
    owners = {clusters.brokers[name].binary_port: f"broker {name}" for name in (SOURCE, TARGET)}
    for pid in descendants(clusters.pipeline_pid):
        owners |= dict.fromkeys(local_ports(pid), "reader")
    return owners


def traced_in(directory: Path) -> Iterator[Sighting]:
    """Yield what the pipeline's Python processes have noted."""
    for file in directory.iterdir():
        for line in file.read_text(encoding="ascii").splitlines():
            name, number, at_ns = line.split()
            yield Sighting(int(number), int(at_ns), name.replace("-", " "))


def run(directory: Path, rate: float, seconds: float) -> tuple[Times, float]:
    """Measure one rate; return the times, and the processor time of the pipeline in percent of a core."""
    shutil.rmtree(directory, ignore_errors=True)
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Samples] = context.Queue()
    traces = directory / "traces"
    traces.mkdir(parents=True)
    path = os.pathsep.join([str(Path(__file__).parent / "tracing"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {"HOPS_TRACES": str(traces.absolute()), "PYTHONPATH": path}
    with LocalClusters(directory, (SOURCE, TARGET)) as clusters:
        clusters.make_namespace(NAMESPACE, (SOURCE, TARGET))
        clusters.start_pipeline("--lease-seconds", str(2 * (seconds + TIMEOUT_S)), environment=environment)
        urls = {name: clusters.members[name].service_url for name in (SOURCE, TARGET)}

        def start(work: Callable[..., None], *arguments: object) -> None:
            context.Process(target=work, args=(*arguments, results), daemon=True).start()

        def measure(load: Load) -> dict[int, float]:
            ready = context.Event()
            start(consume, TARGET, urls[TARGET], load, ready)
            if not ready.wait(TIMEOUT_S):
                message = f"no consumer of {TOPIC} within {TIMEOUT_S:g} s"
                raise TimeoutError(message)
            start(produce, urls[SOURCE], load)
            found = {each["role"]: each for each in (results.get(timeout=seconds + TIMEOUT_S) for _ in range(2))}
            return dict(zip(found[TARGET]["numbers"], found[TARGET]["ms"], strict=True))

        measure(Load(TOPIC, rate, WARM_UP_S, SIZE))
        for file in traces.iterdir():
            file.write_text("", encoding="ascii")
        sniffer = Sniffer()
        began, spent_s = time.monotonic(), cpu_seconds(clusters.pipeline_pid)
        received_ms = measure(Load(TOPIC, rate, seconds, SIZE))
        percent = 100 * (cpu_seconds(clusters.pipeline_pid) - spent_s) / (time.monotonic() - began)
        owners = owners_of(clusters)
        sightings = [*sniffer.stop(), *traced_in(traces)]
    shutil.rmtree(directory, ignore_errors=True)
    return hops(sightings, owners, received_ms), percent


def table(found: Times, rate: float, percent: float) -> Table:
    """Return the path that most messages took, with percentiles of the time in each process."""
    times = max(found.values(), key=lambda each: len(next(iter(each.values()))))
    count, total = len(next(iter(times.values()))), sum(len(next(iter(each.values()))) for each in found.values())
    taken = f"{count:,} of {total:,} messages took this path"
    drawn = Table(title=f"{rate:g} messages/s of 1 KB: {taken}; the pipeline took {percent:.1f} % of a core")
    for heading in ("process", "p50, ms", "p90", "p99"):
        drawn.add_column(heading, justify="left" if heading == "process" else "right")
    sums = [sum(each) for each in zip(*times.values(), strict=True)]
    for name, values in (*times.items(), ("all", sums)):
        figures = percentiles(values)
        drawn.add_row(name, *(f"{figures[each]:.2f}" for each in ("p50", "p90", "p99")))
    return drawn


def main() -> None:
    """Measure each rate, print a table, and write one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few seconds")
    parser.add_argument("--rates", type=float, nargs="+", default=[20.0, 200.0, 1_000.0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--directory", type=Path, default=Path("build/bench/hops"))
    options = parser.parse_args()
    seconds = 5.0 if options.quick else options.seconds
    runs = {}
    for rate in options.rates:
        found, percent = run(options.directory, rate, seconds)
        Console().print(table(found, rate, percent))
        runs[f"{rate:g}"] = [
            {
                "path": path,
                "messages": len(next(iter(times.values()))),
                "ms": {k: percentiles(v) for k, v in times.items()},
            }
            for path, times in found.items()
        ]
    sys.stdout.write(json.dumps({"machine": describe_machine(options.directory.parent), "runs": runs}) + "\n")


if __name__ == "__main__":
    main()
