"""Lookups per second of one instance of the lookup service, and their latency.

Clients with many connections ask for random ones of many topics at a fixed rate. Their times are those at which the
lookups are due, so a service that is late has a high latency, not fewer lookups. One broker answers what the service
does not know. Answers are known for two seconds, so with the defaults 95 of 100 are known.

The processor time of the service per lookup tells the rate that one core sustains, also if the machine does other work.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.options import parse
from magnetar.wire import commands
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.lookup import Instance
from tests.kit.measure import describe_machine, percentiles
from tests.kit.processes import cpu_seconds

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "ewr"
RATE = 10_000
"""Lookups per second."""
CONNECTIONS = 50
TOPICS = 1_000
WARM_UP_S = 2.0
FULL_S, QUICK_S = 30.0, 5.0
TICK_S = 0.001
"""Seconds between two bursts of lookups."""


@dataclass(frozen=True, slots=True)
class Result:
    """The measured figures."""

    lookups: int
    refused: int
    per_second: float
    latency_ms: dict[str, float]
    processor_us: float
    """Processor time of the service per lookup, in microseconds."""
    per_core_and_second: float
    """Lookups per second of processor time."""

    @classmethod
    def of(cls, latencies_s: list[float], refused: int, seconds: float, processor_s: float) -> Result:
        """Summarize the latencies of answered lookups; raises ValueError if there are none."""
        count = len(latencies_s)
        latency = {name: round(each * 1000, 2) for name, each in percentiles(latencies_s).items()}
        return cls(
            count,
            refused,
            round(count / seconds),
            latency,
            round(processor_s / count * 1e6, 1),
            round(count / processor_s),
        )


class Asker(asyncio.Protocol):
    """One connection with lookups."""

    def __init__(self) -> None:
        """Begin without lookups."""
        self.latencies_s: list[float] = []
        self.refused = 0
        self.is_connected = asyncio.Event()
        self._due: dict[int, float] = {}
        self._decoder = FrameDecoder()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(commands.connect(client_version="bench"))

    def data_received(self, data: bytes) -> None:
        """Note the answers."""
        now = self._loop.time()
        for frame in self._decoder.feed(data):
            if frame.command.type == pb.BaseCommand.LOOKUP_RESPONSE:
                answer = frame.command.lookupTopicResponse
                self.refused += answer.response == pb.CommandLookupTopicResponse.Failed
                self.latencies_s.append(now - self._due.pop(answer.request_id))
            elif frame.command.type == pb.BaseCommand.PING:
                self._transport.write(commands.pong())
            else:
                self.is_connected.set()

    def ask(self, topic: str, number: int, due: float) -> bytes:
        """Return a lookup that is due at a time."""
        self._due[number] = due
        return commands.lookup(topic=topic, request_id=number)

    def send(self, frames: list[bytes]) -> None:
        """Send lookups."""
        self._transport.write(b"".join(frames))


async def load(instance: Instance, seconds: float) -> Result:
    """Ask at RATE, and return the figures after a time to warm up."""
    loop, chance = asyncio.get_running_loop(), random.Random(1)
    host, port = instance.service_url.removeprefix("pulsar://").split(":")
    askers = [(await loop.create_connection(Asker, host, int(port)))[1] for _ in range(CONNECTIONS)]
    for each in askers:
        await each.is_connected.wait()
    topics = [f"persistent://public/default/topic-{number}" for number in range(TOPICS)]
    assert instance.process is not None
    number, begin, measured_from, processor_s = 0, loop.time(), None, 0.0
    while (now := loop.time()) < begin + WARM_UP_S + seconds:
        if measured_from is None and now >= begin + WARM_UP_S:
            measured_from, processor_s = now, cpu_seconds(instance.process.pid)
            for each in askers:
                each.latencies_s.clear()
        burst: dict[Asker, list[bytes]] = {}
        while (due := begin + number / RATE) <= now:
            number += 1
            asker = askers[number % CONNECTIONS]
            burst.setdefault(asker, []).append(asker.ask(chance.choice(topics), number, due))
        for asker, frames in burst.items():
            asker.send(frames)
        await asyncio.sleep(TICK_S)
    assert measured_from is not None
    spent_s, elapsed_s = cpu_seconds(instance.process.pid) - processor_s, loop.time() - measured_from
    latencies = [latency for each in askers for latency in each.latencies_s]
    return Result.of(latencies, sum(each.refused for each in askers), elapsed_s, spent_s)


def measure(directory: Path, seconds: float) -> Result:
    """Start a broker and an instance, and measure it."""
    with Broker(directory / "broker", CLUSTER) as broker:
        instance = Instance(directory / "lookup", [broker.admin_url], CLUSTER).start()
        try:
            # The load must not wait for itself: it shares the processors with the service and the broker.
            gc.freeze()
            gc.disable()
            return asyncio.run(load(instance, seconds))
        finally:
            instance.kill()


def main() -> int:
    """Measure and print."""
    options = parse("lookups", "Lookups per second of the lookup service, and their latency.", f"{QUICK_S:g} seconds")
    result = measure(options.directory, QUICK_S if options.quick else FULL_S)
    found = {"machine": describe_machine(options.directory), "rate": RATE, **asdict(result)}
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
