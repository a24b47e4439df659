"""Moving subscriptions: all workloads together, over the raw protocol, which shows receipts of acknowledgements.

Planned switches close the consumers in one cluster and open them in the other. Then the first cluster's broker is
killed while the last workload runs. A duplicate is a message delivered in the second cluster after the receipt of its
acknowledgement in the first.
"""

from __future__ import annotations

import heapq
import random
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.catalogue import CONSUMER_PERMITS, SWITCH_RATE
from bench.load import look_up
from bench.outcome import Outcome
from bench.switch import WORKLOADS, Account, Workload, acknowledge_at, entries_due, permits_due
from bench.systems import HERE, THERE
from magnetar.wire.entries.batch import BatchedMessage, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import RawConnection, name_of, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.systems import Pair
    from magnetar.wire.frame import Frame

NUMBER = struct.Struct(">Q")
MESSAGE_BYTES = 100
SUBSCRIPTION = "moves"
TICK_S = 0.002
QUIET_S = 1.5
"""Seconds without a message after which no more is expected."""

DRAIN_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 20.0


@dataclass(slots=True)
class RunningWorkload:
    """One running workload."""

    id: int
    """The id of its producer and of its consumers."""

    workload: Workload
    topic: str
    account: Account = field(default_factory=Account)
    sent: int = 0
    """Number of entries sent."""

    granted: int = 0
    """Number of permits granted in the first cluster."""


class Source:
    """Producers and consumers of all workloads in the first cluster."""

    def __init__(self, url: str, workloads: Sequence[RunningWorkload]) -> None:
        """Connect, create the producers and subscribe."""
        self._running = {running.id: running for running in workloads}
        self._active = dict(self._running)
        self._producing = RawConnection.connected(url)
        self._consuming = RawConnection.connected(url)
        self._chance = random.Random(1)
        self._late: list[tuple[float, int, int, pb.MessageIdData, list[int]]] = []
        self._unanswered: dict[int, tuple[int, list[int]]] = {}
        self._request_id = 0
        self._closing = 0
        for running in workloads:
            look_up(self._producing, running.topic)
            self._producing.create_producer(running.topic, running.id)
            look_up(self._consuming, running.topic)
            self._consuming.subscribe(running.topic, SUBSCRIPTION, running.id, replicate_subscription_state=True)
        self._started = time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._producing.close()
        self._consuming.close()

    @property
    def elapsed_s(self) -> float:
        """Return the seconds of load so far."""
        return time.monotonic() - self._started

    @property
    def is_closing(self) -> bool:
        """Return whether the close of a consumer is unconfirmed."""
        return self._closing > 0

    def stop(self, workloads: Iterable[RunningWorkload]) -> None:
        """Stop the load of these workloads, and close their consumers."""
        for running in workloads:
            del self._active[running.id]
            self._closing += 1
            self._consuming.send("CLOSE_CONSUMER", consumer_id=running.id, request_id=self._next_request_id())

    def turn(self) -> None:
        """Publish, grant and acknowledge everything that is due, and handle received frames."""
        now_s = self.elapsed_s
        for running in self._active.values():
            self._publish(running, now_s)
            self._grant(running, now_s)
        self._acknowledge(now_s)
        for frame in self._consuming.gather(TICK_S):
            self._take(frame, now_s)
        for frame in self._producing.gather(0):
            if name_of(frame) == "SEND_RECEIPT":
                running = self._running[part_of(frame).producer_id]
                running.account.published += running.workload.batch

    def _publish(self, running: RunningWorkload, now_s: float) -> None:
        for number in range(running.sent, entries_due(running.workload, SWITCH_RATE, now_s)):
            entry = build(number, running.workload.batch)
            self._producing.send(
                "SEND", entry, producer_id=running.id, sequence_id=number, num_messages=running.workload.batch
            )
            running.sent = number + 1

    def _grant(self, running: RunningWorkload, now_s: float) -> None:
        permits = permits_due(running.workload, SWITCH_RATE, now_s, CONSUMER_PERMITS) - running.granted
        if permits > 0:
            self._consuming.flow(permits, running.id)
            running.granted += permits

    def _take(self, frame: Frame, now_s: float) -> None:
        part = part_of(frame)
        match name_of(frame):
            case "MESSAGE" if part.consumer_id in self._active:
                workload = self._active[part.consumer_id].workload
                held = numbers(frame)
                # An entry is acknowledged with its last message, as the official client does by default.
                times = [acknowledge_at(workload, number, SWITCH_RATE, now_s, self._chance) for number in held]
                due = [at for at in times if at is not None]
                if len(due) == len(held):
                    item = (max(due), self._next_request_id(), part.consumer_id, part.message_id, held)
                    heapq.heappush(self._late, item)
            case "ACK_RESPONSE" if not part.HasField("error"):
                workload_id, held = self._unanswered.pop(part.request_id)
                self._running[workload_id].account.acknowledged.update(held)
            case "SUCCESS":
                self._closing -= 1
            case _:
                pass  # messages for a consumer that is being closed

    def _acknowledge(self, now_s: float) -> None:
        while self._late and self._late[0][0] <= now_s:
            _, request_id, workload_id, message_id, held = heapq.heappop(self._late)
            if workload_id in self._active:
                self._unanswered[request_id] = (workload_id, held)
                self._consuming.send(
                    "ACK",
                    consumer_id=workload_id,
                    ack_type=pb.CommandAck.Individual,
                    message_id=[message_id],
                    request_id=request_id,
                )

    def _next_request_id(self) -> int:
        self._request_id += 1
        return self._request_id + 1_000_000  # outside of the range of RawConnection's own request ids


class Target:
    """Consumers in the second cluster."""

    def __init__(self, url: str) -> None:
        """Connect."""
        self._raw = RawConnection.connected(url)
        self._running: dict[int, RunningWorkload] = {}
        self.last_message = time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def open(self, running: RunningWorkload) -> None:
        """Open a consumer of the workload's subscription."""
        look_up(self._raw, running.topic)
        self._raw.subscribe(running.topic, SUBSCRIPTION, running.id, replicate_subscription_state=True)
        self._raw.flow(max(2 * running.sent * running.workload.batch, CONSUMER_PERMITS), running.id)
        self._running[running.id] = running
        self.last_message = time.monotonic()

    def turn(self) -> None:
        """Handle and acknowledge received messages."""
        for frame in self._raw.gather(TICK_S):
            if name_of(frame) == "MESSAGE":
                part = part_of(frame)
                self._running[part.consumer_id].account.received.update(numbers(frame))
                self._raw.send(
                    "ACK", consumer_id=part.consumer_id, ack_type=pb.CommandAck.Individual, message_id=[part.message_id]
                )
                self.last_message = time.monotonic()

    def is_drained(self, workloads: Iterable[RunningWorkload]) -> bool:
        """Return whether nothing is missing and no message has arrived for a while."""
        return self.is_quiet() and not any(running.account.missing for running in workloads)

    def is_quiet(self) -> bool:
        """Return whether no message has arrived for a while."""
        return time.monotonic() - self.last_message > QUIET_S


class Moving:
    """The whole benchmark on two clusters."""

    def __init__(self, pair: Pair, namespace: str, seconds: float) -> None:
        """Run a load for ``seconds`` before the consumers move."""
        self._pair = pair
        self._seconds = seconds
        self._running = [
            RunningWorkload(number, workload, f"persistent://{namespace}/moves-{workload.id}")
            for number, workload in enumerate(WORKLOADS)
        ]

    def run(self) -> Outcome:
        """Move all subscriptions; the first cluster's broker cannot be used for other measurements afterwards."""
        planned = [running for running in self._running if running.workload.planned]
        unplanned = [running for running in self._running if not running.workload.planned]
        source = Source(self._url(HERE), self._running)
        target = Target(self._url(THERE))
        try:
            while source.elapsed_s < self._seconds:
                source.turn()
            move(source, target, planned)
            self._pair.kill(HERE)
            for running in unplanned:
                target.open(running)
            while not target.is_quiet():
                target.turn()
        finally:
            source.close()
            target.close()
        return self._outcome(planned)

    def _outcome(self, planned: Sequence[RunningWorkload]) -> Outcome:
        figures = {f"switch.{running.workload.id}": float(running.account.duplicates) for running in self._running}
        figures["switch.lost"] = float(sum(running.account.missing for running in planned))
        details = {
            running.workload.id: {
                "published": running.account.published,
                "acknowledged": len(running.account.acknowledged),
                "received_elsewhere": len(running.account.received),
                "missing_elsewhere": running.account.missing,
            }
            for running in self._running
        }
        return Outcome(figures, details)

    def _url(self, name: str) -> str:
        return self._pair.group.members[name].service_url


def move(source: Source, target: Target, workloads: Sequence[RunningWorkload]) -> None:
    """Close the consumers in the source, open them in the target, and wait for all expected messages."""
    source.stop(workloads)
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    while source.is_closing:
        source.turn()
        _require(deadline, "consumers closed")
    closed = time.monotonic()
    waiting = sorted(workloads, key=lambda running: running.workload.pause_s)
    deadline = closed + waiting[-1].workload.pause_s + DRAIN_TIMEOUT_S
    while waiting or not (target.is_drained(workloads) or (target.is_quiet() and time.monotonic() > deadline)):
        while waiting and time.monotonic() - closed >= waiting[0].workload.pause_s:
            target.open(waiting.pop(0))
        source.turn()
        target.turn()


def build(entry_number: int, batch: int) -> bytes:
    """Return an entry of ``batch`` messages with their numbers; 1 is an unbatched message."""
    first = entry_number * batch
    contents = [NUMBER.pack(first + index).ljust(MESSAGE_BYTES) for index in range(batch)]
    metadata = pb.MessageMetadata(producer_name="bench", sequence_id=first, publish_time=time.time_ns() // 1_000_000)
    if batch == 1:
        return build_entry(metadata, contents[0])
    metadata.num_messages_in_batch = batch
    messages = (BatchedMessage(pb.SingleMessageMetadata(payload_size=0), content) for content in contents)
    return build_entry(metadata, encode_batch(messages))


def numbers(frame: Frame) -> list[int]:
    """Return the numbers of the messages in a MESSAGE."""
    metadata, payload = parse_metadata(frame.body), payload_of(frame.body)
    if not metadata.HasField("num_messages_in_batch"):
        return [NUMBER.unpack_from(payload)[0]]
    return [NUMBER.unpack_from(message.payload)[0] for message in decode_batch(metadata, payload)]


def _require(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        text = f"not in time: {what}"
        raise TimeoutError(text)
