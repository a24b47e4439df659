"""A subscription that moves between clusters during publishing, with an account of every message.

It uses the raw protocol, so that receipts of acknowledgements are visible, with clusters of any system.
"""

from __future__ import annotations

import contextlib
import heapq
import struct
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from magnetar.wire.entries.entry import build_entry, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import ClosedByPeerError, RawConnection, name_of, part_of
from tests.kit.wait import PATIENCE_S

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.wire.frame import Frame
    from tests.kit.clusters import Group
    from tests.kit.rest import Json

SUBSCRIPTION = "moves"
CONSUMERS = 2
"""Number of consumers of the Shared subscription in the active cluster."""

PERMITS = 1_000
"""Permits of each consumer, renewed when half of them are used."""

TICK_S = 0.002
BURST_EVERY_S = 1.0
SILENCE_S = 0.3
"""Seconds without a frame after which a suspended broker's output has ended."""

_NUMBER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Traffic:
    """The messages of each publishing cluster, and the times of their acknowledgements."""

    steady: int = 100
    """Messages per second."""

    burst: int = 100
    """Additional messages at once, every BURST_EVERY_S."""

    delayed_share: float = 0.05
    delayed_s: tuple[float, float] = (0.1, 1.5)
    """Bounds of the delay of a delayed message."""

    mean_work_s: float = 0.02
    """Mean time until a message is acknowledged; individual times differ, so that acknowledgements are out of order."""

    late_share: float = 0.05
    late_s: tuple[float, float] = (0.2, 1.5)
    held_share: float = 0.01
    """Fraction of the messages that their consumer never acknowledges; the next consumer gets them."""


@dataclass(slots=True)
class Account:
    """The state of all messages by number."""

    published: set[int] = field(default_factory=set)
    """Messages with a receipt."""

    acknowledged: dict[int, float] = field(default_factory=dict)
    """By message, the time of the newest receipt of its acknowledgement."""

    in_doubt: set[int] = field(default_factory=set)
    """Messages whose acknowledgement had no receipt when the broker was killed: it may be durable or not."""

    repeated: set[int] = field(default_factory=set)
    """Messages delivered again after a receipt of their acknowledgement, until ``take_repeated``."""

    open_again: set[int] = field(default_factory=set)
    """Repeated messages without a later receipt of their acknowledgement: they may be delivered again."""

    origins: list[str] = field(default_factory=list)
    """The publishing cluster of each number."""

    @property
    def numbers(self) -> int:
        """Return the number of messages so far."""
        return len(self.origins)

    def next_number(self, origin: str) -> int:
        """Return a number for a message."""
        self.origins.append(origin)
        return len(self.origins) - 1

    def delivered(self, number: int) -> None:
        """Record a delivery."""
        if number in self.acknowledged and number not in self.open_again:
            self.repeated.add(number)
            self.open_again.add(number)

    def answered(self, number: int) -> None:
        """Record the receipt of an acknowledgement."""
        self.acknowledged[number] = time.monotonic()
        self.open_again.discard(number)

    def take_repeated(self) -> set[int]:
        """Return the messages repeated since the last call."""
        taken, self.repeated = self.repeated, set()
        return taken

    def acknowledged_since(self, moment: float) -> set[int]:
        """Return the messages whose acknowledgement got its receipt at or after ``moment``."""
        return {number for number, at in self.acknowledged.items() if at >= moment}

    @property
    def missing(self) -> set[int]:
        """Return the published messages that are not acknowledged."""
        return self.published - self.acknowledged.keys() - self.in_doubt


class Producing:
    """A producer of one cluster."""

    def __init__(
        self, group: Group, name: str, topic: str, account: Account, traffic: Traffic, chance: random.Random
    ) -> None:
        """Start publishing."""
        self._name, self._account, self._traffic, self._chance = name, account, traffic, chance
        self._raw = _connect(group.members[name].service_url, topic)
        self._raw.create_producer(topic)
        self._unanswered: dict[int, int] = {}
        self._sent = 0
        self._started = time.monotonic()

    def turn(self) -> None:
        """Publish the messages that are due, and handle receipts."""
        elapsed_s = time.monotonic() - self._started
        bursts = int(elapsed_s // BURST_EVERY_S)
        due = int(self._traffic.steady * elapsed_s) + self._traffic.burst * bursts
        for sequence_id in range(self._sent, due):
            self._unanswered[sequence_id] = number = self._account.next_number(self._name)
            self._raw.send("SEND", self._entry(number, sequence_id), producer_id=1, sequence_id=sequence_id)
            self._sent += 1
        self._take(self._raw.gather(0))

    def finish(self) -> None:
        """Wait for the receipts of all sent messages, and close the producer."""
        deadline = time.monotonic() + PATIENCE_S
        while self._unanswered:
            self._take(self._raw.gather(TICK_S))
            assert time.monotonic() < deadline, f"no receipts for {len(self._unanswered)} messages"
        self._raw.close()

    def abandon(self) -> None:
        """Handle the kill or suspension of the broker: messages without a receipt may be in its log or not."""
        self._take(_last_frames(self._raw))
        self._raw.close()

    def _take(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            assert name_of(frame) == "SEND_RECEIPT", part_of(frame)
            self._account.published.add(self._unanswered.pop(part_of(frame).sequence_id))

    def _entry(self, number: int, sequence_id: int) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        metadata = pb.MessageMetadata(producer_name="journey", sequence_id=sequence_id, publish_time=now_ms)
        if self._chance.random() < self._traffic.delayed_share:
            metadata.deliver_at_time = now_ms + int(1000 * self._chance.uniform(*self._traffic.delayed_s))
        return build_entry(metadata, _NUMBER.pack(number))


class Consuming:
    """The consumers in one cluster."""

    def __init__(self, url: str, topic: str, account: Account, traffic: Traffic, chance: random.Random) -> None:
        """Subscribe, and grant permits."""
        self._account, self._traffic, self._chance = account, traffic, chance
        self._raw = _connect(url, topic)
        self._due: list[tuple[float, int, int, pb.MessageIdData, int]] = []
        self._unanswered: dict[int, int] = {}
        self._request_id = 1_000_000  # outside of the range of RawConnection's own request ids
        self._used = dict.fromkeys(range(CONSUMERS), 0)
        for consumer_id in self._used:
            self._raw.subscribe(topic, SUBSCRIPTION, consumer_id, replicate_subscription_state=True)
            self._raw.flow(PERMITS, consumer_id)

    def turn(self) -> None:
        """Handle received messages, and send the acknowledgements that are due."""
        for frame in self._raw.gather(TICK_S):
            if name_of(frame) == "MESSAGE":
                self._deliver(frame)
            else:
                self._answered(frame)
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, consumer_id, message_id, number = heapq.heappop(self._due)
            self._unanswered[request_id := self._next_request_id()] = number
            self._raw.send(
                "ACK",
                consumer_id=consumer_id,
                ack_type=pb.CommandAck.Individual,
                message_id=[message_id],
                request_id=request_id,
            )

    def close(self) -> None:
        """Close the consumers, and wait for the receipts of their acknowledgements; drop all other messages."""
        closing = {self._next_request_id(): consumer_id for consumer_id in self._used}
        for request_id, consumer_id in closing.items():
            self._raw.send("CLOSE_CONSUMER", consumer_id=consumer_id, request_id=request_id)
        deadline = time.monotonic() + PATIENCE_S
        while closing or self._unanswered:
            for frame in self._raw.gather(TICK_S):
                if name_of(frame) == "SUCCESS":
                    del closing[part_of(frame).request_id]
                elif name_of(frame) != "MESSAGE":  # a message that is dropped
                    self._answered(frame)
            assert time.monotonic() < deadline, f"not closed: {closing}, not answered: {len(self._unanswered)}"
        self._raw.close()

    def abandon(self) -> None:
        """Handle the kill or suspension of the broker; its earlier output counts."""
        for frame in _last_frames(self._raw):
            if name_of(frame) == "MESSAGE":
                self._account.delivered(_number(frame))
            else:
                self._answered(frame)
        self._account.in_doubt.update(self._unanswered.values())
        self._raw.close()

    def _deliver(self, frame: Frame) -> None:
        part, number = part_of(frame), _number(frame)
        self._account.delivered(number)
        self._used[part.consumer_id] += 1
        if 2 * self._used[part.consumer_id] >= PERMITS:
            self._raw.flow(self._used[part.consumer_id], part.consumer_id)
            self._used[part.consumer_id] = 0
        if (work_s := self._work_s()) is not None:
            due = time.monotonic() + work_s
            heapq.heappush(self._due, (due, self._next_request_id(), part.consumer_id, part.message_id, number))

    def _work_s(self) -> float | None:
        kind = self._chance.random()
        if kind < self._traffic.held_share:
            return None
        if kind < self._traffic.held_share + self._traffic.late_share:
            return self._chance.uniform(*self._traffic.late_s)
        return self._chance.expovariate(1 / self._traffic.mean_work_s) if self._traffic.mean_work_s else 0.0

    def _answered(self, frame: Frame) -> None:
        part = part_of(frame)
        assert name_of(frame) == "ACK_RESPONSE", part
        assert not part.HasField("error"), part
        self._account.answered(self._unanswered.pop(part.request_id))

    def _next_request_id(self) -> int:
        self._request_id += 1
        return self._request_id


class Journey:
    """One topic, published in several clusters, and its subscription, consumed in one cluster at a time."""

    def __init__(
        self, group: Group, topic: str, publishing: Sequence[str], traffic: Traffic, chance: random.Random
    ) -> None:
        """Publish in the clusters ``publishing``, and consume in the first of them."""
        self.account = Account()
        self.here = publishing[0]
        self._group, self._topic, self._traffic, self._chance = group, topic, traffic, chance
        self._consuming = self._consume(self.here)  # before publishing, so that the subscription has all messages
        self._producing: dict[str, Producing] = {}
        for name in publishing:
            self.publish(name)

    @property
    def publishing(self) -> set[str]:
        """Return the clusters with a producer."""
        return set(self._producing)

    def publish(self, name: str) -> None:
        """Start publishing in a cluster."""
        self._producing[name] = Producing(self._group, name, self._topic, self.account, self._traffic, self._chance)

    def withdraw(self, name: str) -> None:
        """Stop publishing in a cluster, and wait for all receipts."""
        self._producing.pop(name).finish()

    def run(self, seconds: float) -> None:
        """Publish and consume for ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.turn()

    def turn(self) -> None:
        """Publish and consume everything that is due."""
        self._publish()
        self._consuming.turn()

    def run_until(self, condition: Callable[[], object], what: str, *, timeout_s: float = PATIENCE_S) -> None:
        """Publish and consume until ``condition`` is true."""
        _until(condition, self.turn, what, timeout_s)

    def move(self, there: str, condition: Callable[[], object]) -> None:
        """Close the consumers, and open them in ``there`` when the condition is true; publishing continues."""
        self._consuming.close()
        _until(condition, self._publish, f"the move to {there}", PATIENCE_S)
        self._consuming = self._consume(there)
        self.here = there

    def flee(self, there: str, stop: Callable[[], None]) -> None:
        """Kill or suspend the broker of the consumers and of a producer, and open consumers in ``there`` at once."""
        stop()
        if self.here in self._producing:
            self._producing.pop(self.here).abandon()
        self._consuming.abandon()
        self._consuming = self._consume(there)
        self.here = there

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Stop publishing, and consume until nothing is missing; raises AssertionError with the missing messages."""
        for name in list(self._producing):
            self.withdraw(name)
        self.acknowledge_all()
        with contextlib.suppress(TimeoutError):
            self.run_until(lambda: not self.account.missing, "the rest", timeout_s=timeout_s)
        assert not self.account.missing, f"lost: {sorted(self.account.missing)} of {self.account.numbers}"
        self._consuming.close()

    def acknowledge_all(self) -> None:
        """Reopen the consumers, which acknowledge all messages from now on, with short delays."""
        self._consuming.close()
        self._traffic = replace(self._traffic, late_share=0.0, held_share=0.0)
        self._consuming = self._consume(self.here)

    def _publish(self) -> None:
        for producing in self._producing.values():
            producing.turn()

    def _consume(self, name: str) -> Consuming:
        url = self._group.members[name].service_url
        return Consuming(url, self._topic, self.account, self._traffic, self._chance)


def standing(group: Group, topic: str, name: str) -> Json:
    """Return the subscription's stats in the cluster; empty if it does not exist."""
    return group.rest(name).stats(topic)["subscriptions"].get(SUBSCRIPTION, {})


def unconfirmed_s(group: Group, topic: str, source: str, target: str) -> float | None:
    """Return the age of the oldest acknowledgement unconfirmed by ``target``; None: unknown, 0.0: none."""
    age: float | None = standing(group, topic, source)["progressAgeSeconds"].get(target)
    return age


def is_confirmed(group: Group, topic: str, source: str, target: str) -> bool:
    """Return whether ``target`` has confirmed all acknowledgements of ``source``, as before a planned switch."""
    return unconfirmed_s(group, topic, source, target) == 0.0


def _until(condition: Callable[[], object], turn: Callable[[], None], what: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        turn()
        if time.monotonic() > deadline:
            text = f"not within {timeout_s:g} s: {what}"
            raise TimeoutError(text)


def _connect(url: str, topic: str) -> RawConnection:
    """Connect, and look up the topic, because Apache Pulsar loads a topic at the lookup."""
    raw = RawConnection.connected(url)
    raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic, authoritative=False)
    return raw


def _last_frames(raw: RawConnection) -> list[Frame]:
    """Return the frames that a broker sent before it was killed or suspended; all of them are in the socket."""
    frames: list[Frame] = []
    deadline = time.monotonic() + SILENCE_S
    with contextlib.suppress(ClosedByPeerError):
        while time.monotonic() < deadline:
            if came := raw.gather(TICK_S):
                frames += came
                deadline = time.monotonic() + SILENCE_S
    return frames


def _number(frame: Frame) -> int:
    (number,) = _NUMBER.unpack(payload_of(frame.body))
    return int(number)
