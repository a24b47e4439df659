"""Subscriptions that move: all workloads at once, spoken by the protocol, which tells when an acknowledgement counts.

The planned ones close their consumers in one cluster and open them in the other; then the first cluster's broker is
killed under the last one. A duplicate is a message that comes in the second cluster although its acknowledgement had
got its receipt in the first.
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
"""Seconds without a message after which nothing more is expected."""

DRAIN_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 20.0


@dataclass(slots=True)
class Lane:
    """One workload on its way."""

    id: int
    """Of its producer and of its consumers."""

    workload: Workload
    topic: str
    account: Account = field(default_factory=Account)
    sent: int = 0
    """Entries sent."""

    granted: int = 0
    """Permits granted in the first cluster."""


class Source:
    """Producers and consumers of all lanes in the first cluster."""

    def __init__(self, url: str, lanes: Sequence[Lane]) -> None:
        """Connect, make the producers and subscribe."""
        self._lanes = {lane.id: lane for lane in lanes}
        self._active = dict(self._lanes)
        self._producing = RawConnection.connected(url)
        self._consuming = RawConnection.connected(url)
        self._chance = random.Random(1)
        self._late: list[tuple[float, int, int, pb.MessageIdData, list[int]]] = []
        self._unanswered: dict[int, tuple[int, list[int]]] = {}
        self._request_id = 0
        self._closing = 0
        for lane in lanes:
            look_up(self._producing, lane.topic)
            self._producing.create_producer(lane.topic, lane.id)
            look_up(self._consuming, lane.topic)
            self._consuming.subscribe(lane.topic, SUBSCRIPTION, lane.id, replicate_subscription_state=True)
        self._started = time.monotonic()

    def close(self) -> None:
        """Leave."""
        self._producing.close()
        self._consuming.close()

    @property
    def elapsed_s(self) -> float:
        """Seconds of load so far."""
        return time.monotonic() - self._started

    @property
    def is_closing(self) -> bool:
        """Whether a consumer's closing has not been confirmed yet."""
        return self._closing > 0

    def stop(self, lanes: Iterable[Lane]) -> None:
        """End the lanes' load and ask for their consumers to be closed."""
        for lane in lanes:
            del self._active[lane.id]
            self._closing += 1
            self._consuming.send("CLOSE_CONSUMER", consumer_id=lane.id, request_id=self._next_request_id())

    def turn(self) -> None:
        """Publish, grant and acknowledge what is due, and take what came."""
        now_s = self.elapsed_s
        for lane in self._active.values():
            self._publish(lane, now_s)
            self._grant(lane, now_s)
        self._acknowledge(now_s)
        for frame in self._consuming.gather(TICK_S):
            self._take(frame, now_s)
        for frame in self._producing.gather(0):
            if name_of(frame) == "SEND_RECEIPT":
                lane = self._lanes[part_of(frame).producer_id]
                lane.account.published += lane.workload.batch

    def _publish(self, lane: Lane, now_s: float) -> None:
        for number in range(lane.sent, entries_due(lane.workload, SWITCH_RATE, now_s)):
            entry = build(number, lane.workload.batch)
            self._producing.send(
                "SEND", entry, producer_id=lane.id, sequence_id=number, num_messages=lane.workload.batch
            )
            lane.sent = number + 1

    def _grant(self, lane: Lane, now_s: float) -> None:
        permits = permits_due(lane.workload, SWITCH_RATE, now_s, CONSUMER_PERMITS) - lane.granted
        if permits > 0:
            self._consuming.flow(permits, lane.id)
            lane.granted += permits

    def _take(self, frame: Frame, now_s: float) -> None:
        part = part_of(frame)
        match name_of(frame):
            case "MESSAGE" if part.consumer_id in self._active:
                workload = self._active[part.consumer_id].workload
                held = numbers(frame)
                # An entry is acknowledged when its last message is, as the official client does by default.
                times = [acknowledge_at(workload, number, SWITCH_RATE, now_s, self._chance) for number in held]
                due = [at for at in times if at is not None]
                if len(due) == len(held):
                    item = (max(due), self._next_request_id(), part.consumer_id, part.message_id, held)
                    heapq.heappush(self._late, item)
            case "ACK_RESPONSE" if not part.HasField("error"):
                lane_id, held = self._unanswered.pop(part.request_id)
                self._lanes[lane_id].account.acknowledged.update(held)
            case "SUCCESS":
                self._closing -= 1
            case _:
                pass  # messages of a consumer that is being closed

    def _acknowledge(self, now_s: float) -> None:
        while self._late and self._late[0][0] <= now_s:
            _, request_id, lane_id, message_id, held = heapq.heappop(self._late)
            if lane_id in self._active:
                self._unanswered[request_id] = (lane_id, held)
                self._consuming.send(
                    "ACK",
                    consumer_id=lane_id,
                    ack_type=pb.CommandAck.Individual,
                    message_id=[message_id],
                    request_id=request_id,
                )

    def _next_request_id(self) -> int:
        self._request_id += 1
        return self._request_id + 1_000_000  # far from those that RawConnection gives by itself


class Target:
    """Consumers in the second cluster."""

    def __init__(self, url: str) -> None:
        """Connect."""
        self._raw = RawConnection.connected(url)
        self._lanes: dict[int, Lane] = {}
        self.last_message = time.monotonic()

    def close(self) -> None:
        """Leave."""
        self._raw.close()

    def open(self, lane: Lane) -> None:
        """Consume the lane's subscription here from now on."""
        look_up(self._raw, lane.topic)
        self._raw.subscribe(lane.topic, SUBSCRIPTION, lane.id, replicate_subscription_state=True)
        self._raw.flow(max(2 * lane.sent * lane.workload.batch, CONSUMER_PERMITS), lane.id)
        self._lanes[lane.id] = lane
        self.last_message = time.monotonic()

    def turn(self) -> None:
        """Take and acknowledge what came."""
        for frame in self._raw.gather(TICK_S):
            if name_of(frame) == "MESSAGE":
                part = part_of(frame)
                self._lanes[part.consumer_id].account.received.update(numbers(frame))
                self._raw.send(
                    "ACK", consumer_id=part.consumer_id, ack_type=pb.CommandAck.Individual, message_id=[part.message_id]
                )
                self.last_message = time.monotonic()

    def is_drained(self, lanes: Iterable[Lane]) -> bool:
        """Whether nothing is missing and nothing has come for a while."""
        return self.is_quiet() and not any(lane.account.missing for lane in lanes)

    def is_quiet(self) -> bool:
        """Whether nothing has come for a while."""
        return time.monotonic() - self.last_message > QUIET_S


class Moving:
    """The whole story on two clusters."""

    def __init__(self, pair: Pair, namespace: str, seconds: float) -> None:
        """Load for ``seconds`` before the consumers move."""
        self._pair = pair
        self._seconds = seconds
        self._lanes = [
            Lane(number, workload, f"persistent://{namespace}/moves-{workload.id}")
            for number, workload in enumerate(WORKLOADS)
        ]

    def run(self) -> Outcome:
        """Move all subscriptions; afterwards the first cluster's broker is not what it was."""
        planned = [lane for lane in self._lanes if lane.workload.planned]
        unplanned = [lane for lane in self._lanes if not lane.workload.planned]
        source = Source(self._url(HERE), self._lanes)
        target = Target(self._url(THERE))
        try:
            while source.elapsed_s < self._seconds:
                source.turn()
            move(source, target, planned)
            self._pair.kill(HERE)
            for lane in unplanned:
                target.open(lane)
            while not target.is_quiet():
                target.turn()
        finally:
            source.close()
            target.close()
        return self._outcome(planned)

    def _outcome(self, planned: Sequence[Lane]) -> Outcome:
        figures = {f"switch.{lane.workload.id}": float(lane.account.duplicates) for lane in self._lanes}
        figures["switch.lost"] = float(sum(lane.account.missing for lane in planned))
        details = {
            lane.workload.id: {
                "published": lane.account.published,
                "acknowledged": len(lane.account.acknowledged),
                "received_elsewhere": len(lane.account.received),
                "missing_elsewhere": lane.account.missing,
            }
            for lane in self._lanes
        }
        return Outcome(figures, details)

    def _url(self, name: str) -> str:
        return self._pair.group.members[name].service_url


def move(source: Source, target: Target, lanes: Sequence[Lane]) -> None:
    """Close the lanes' consumers in the source, open them in the target, and return when all that must come came."""
    source.stop(lanes)
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    while source.is_closing:
        source.turn()
        _require(deadline, "consumers closed")
    closed = time.monotonic()
    waiting = sorted(lanes, key=lambda lane: lane.workload.pause_s)
    deadline = closed + waiting[-1].workload.pause_s + DRAIN_TIMEOUT_S
    while waiting or not (target.is_drained(lanes) or (target.is_quiet() and time.monotonic() > deadline)):
        while waiting and time.monotonic() - closed >= waiting[0].workload.pause_s:
            target.open(waiting.pop(0))
        source.turn()
        target.turn()


def build(entry_number: int, batch: int) -> bytes:
    """Return an entry of ``batch`` messages, which carry their numbers; 1 is not a batch."""
    first = entry_number * batch
    contents = [NUMBER.pack(first + index).ljust(MESSAGE_BYTES) for index in range(batch)]
    metadata = pb.MessageMetadata(producer_name="bench", sequence_id=first, publish_time=time.time_ns() // 1_000_000)
    if batch == 1:
        return build_entry(metadata, contents[0])
    metadata.num_messages_in_batch = batch
    messages = (BatchedMessage(pb.SingleMessageMetadata(payload_size=0), content) for content in contents)
    return build_entry(metadata, encode_batch(messages))


def numbers(frame: Frame) -> list[int]:
    """Return the numbers of the messages that came in a MESSAGE."""
    metadata, payload = parse_metadata(frame.body), payload_of(frame.body)
    if not metadata.HasField("num_messages_in_batch"):
        return [NUMBER.unpack_from(payload)[0]]
    return [NUMBER.unpack_from(message.payload)[0] for message in decode_batch(metadata, payload)]


def _require(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        text = f"not in time: {what}"
        raise TimeoutError(text)
