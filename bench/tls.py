"""The cost of TLS: the broker's CPU per published entry and per handshake, and publishing while clients connect.

* *CPU per entry*: processor time of the broker for a published entry of 1 KiB at full speed, without and with TLS;
* *CPU per handshake*: the same for a complete handshake without resumption, with an RSA and with an ECDSA certificate;
* *p99*: time from when an entry is due to its receipt, at 1,000 entries per second without TLS, while no client
  connects with TLS, and while 200 clients per second do.

The table goes to standard output, followed by one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import ssl
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.frames import publish_frames
from bench.load import Publisher, without_collector
from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.measure import describe_machine, percentiles
from tests.kit.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRY_BYTES = 1024
WINDOW = 1000
RATE = 1000
HANDSHAKE_RATE = 200
ROUNDS = 4
"""Measurements of each kind, alternating, of which the smallest counts."""


def handshakes(port: int, trust: str, count: int, rate: float) -> None:
    """Connect ``count`` times, ``rate`` times per second, each with a full handshake."""
    started = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
        context = ssl.create_default_context(cafile=trust)
        with (
            socket.create_connection((LOOPBACK, port)) as plain,
            context.wrap_socket(plain, server_hostname=LOOPBACK),
        ):
            pass


class Stage:
    """A broker with TLS beside its plain port."""

    def __init__(self, directory: Path, *, is_rsa: bool) -> None:
        """Nothing runs yet."""
        self.authority = Authority(directory)
        (self.port,) = free_ports(1)
        settings = {"brokerServicePortTls": self.port, **self.authority.settings(is_rsa=is_rsa)}
        self.broker = Broker(directory / "broker", settings=settings)

    def publisher(self, *, with_tls: bool, window: int = WINDOW) -> Publisher:
        """Connect a producer."""
        topic = f"persistent://public/default/tls-{with_tls}"
        if not with_tls:
            return Publisher(self.broker.service_url, topic, window)
        context = ssl.create_default_context(cafile=str(self.authority.trust))
        return Publisher(f"pulsar+ssl://{LOOPBACK}:{self.port}", topic, window, context)

    def cpu_us(self, count: int, work: Callable[[], object]) -> float:
        """Return the broker's processor time for each of ``count`` parts of ``work``, in microseconds."""
        before = cpu_seconds(self.broker.pid)
        work()
        return (cpu_seconds(self.broker.pid) - before) / count * 1e6

    def entry_cpu_us(self, count: int) -> dict[bool, float]:
        """Return the processor time per entry without and with TLS."""
        frames = publish_frames(count, ENTRY_BYTES, int(time.time() * 1000))
        publishers = {with_tls: self.publisher(with_tls=with_tls) for with_tls in (False, True)}
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for with_tls, publisher in publishers.items():
                found[with_tls].append(self.cpu_us(count, lambda each=publisher: each.publish(frames)))  # type: ignore[misc]
        for publisher in publishers.values():
            publisher.close()
        return {with_tls: min(values) for with_tls, values in found.items()}

    def handshake_cpu_us(self, count: int) -> float:
        """Return the processor time per handshake."""
        return min(
            self.cpu_us(count, lambda: handshakes(self.port, str(self.authority.trust), count, float("inf")))
            for _ in range(ROUNDS)
        )

    def p99_ms(self, seconds: int, *, is_busy: bool) -> float:
        """Return the 99th percentile of publishing, while clients connect or not."""
        frames = publish_frames(RATE * seconds, ENTRY_BYTES, int(time.time() * 1000))
        publisher = self.publisher(with_tls=False)
        arguments = (self.port, str(self.authority.trust), HANDSHAKE_RATE * seconds, HANDSHAKE_RATE)
        connecting = multiprocessing.Process(target=handshakes, args=arguments)
        if is_busy:
            connecting.start()
        found = publisher.publish_paced(frames, RATE)
        if is_busy:
            connecting.join()
        publisher.close()
        return percentiles(found)["p99"]


def measure(directory: Path, *, is_quick: bool) -> dict[str, float]:
    """Return all figures."""
    entries, count, seconds = (5_000, 100, 3) if is_quick else (50_000, 500, 20)
    with without_collector():
        ecdsa, rsa = Stage(directory / "ecdsa", is_rsa=False), Stage(directory / "rsa", is_rsa=True)
        with ecdsa.broker:
            costs = ecdsa.entry_cpu_us(entries)
            found = {"CPU per entry, µs": costs[False], "CPU per entry with TLS, µs": costs[True]}
            found["CPU per handshake, ECDSA, µs"] = ecdsa.handshake_cpu_us(count)
            found["p99, ms"] = ecdsa.p99_ms(seconds, is_busy=False)
            found["p99 with 200 handshakes per second, ms"] = ecdsa.p99_ms(seconds, is_busy=True)
        with rsa.broker:
            found["CPU per handshake, RSA, µs"] = rsa.handshake_cpu_us(count)
    return found


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less load")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), is_quick=arguments.quick)
        machine = describe_machine(Path(directory))
    table = Table("figure", "value")
    for name, value in found.items():
        table.add_row(name, f"{value:.1f}")
    Console().print(table)
    print(json.dumps({"machine": machine, **found}))


if __name__ == "__main__":
    main()
