"""Logs of a topic in Apache Pulsar and in a cluster of Magnetar, which carry what the other one publishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from magnetar.migration.pulsar.topic_log import TopicLog

PULSAR, TARGET = "legacy", "A"
BATCH = 8


def metadata(*, messages: int = 1, only_to: str = "", origin: Origin | None = None, marker: bool = False) -> bytes:
    """Return an entry with this metadata."""
    described = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=5, num_messages_in_batch=messages)
    if only_to:
        described.replicate_to.append(only_to)
    if marker:
        described.marker_type = 1
    entry = build_entry(described, b"x")
    return entry if origin is None else stamp(entry, origin)


@dataclass
class Log:
    """One of the logs; ``ids`` names the entry at each position, the same in both logs."""

    ledger: int
    entries: list[bytes] = field(default_factory=list)
    ids: dict[Position, int] = field(default_factory=dict)

    @property
    def end(self) -> Position:
        return Position(self.ledger, len(self.entries) - 1)

    def append(self, entry: bytes, number: int = -1) -> Position:
        self.entries.append(entry)
        if number >= 0:
            self.ids[self.end] = number
        return self.end

    def read_on(self, log: TopicLog) -> None:
        for number, entry in enumerate(self.entries):
            position = Position(self.ledger, number)
            if position > log.end:
                log.add(position, parse_metadata(entry))

    def position_of(self, number: int) -> Position:
        return next(position for position, each in self.ids.items() if each == number)

    def acknowledged(self, numbers: Iterable[int]) -> IntervalSet:
        """Return an acknowledgement state: these entries, and everything that is no message."""
        wanted = set(numbers)
        done = [
            at
            for at in (Position(self.ledger, n) for n in range(len(self.entries)))
            if self.ids.get(at, -1) in wanted or at not in self.ids
        ]
        start = [(EARLIEST, Position(self.ledger, -1))]
        return IntervalSet.from_pairs(start + [(Position(self.ledger, at.entry_id - 1), at) for at in done])


@dataclass
class TwoLogs:
    """Both logs, and what is only in one of them."""

    pulsar: Log = field(default_factory=lambda: Log(5))
    target: Log = field(default_factory=lambda: Log(100))
    withheld: set[int] = field(default_factory=set)
    """Entries of Apache Pulsar for other clusters."""
    of_target: set[int] = field(default_factory=set)
    batches: set[int] = field(default_factory=set)
    _count: int = 0
    _in_pulsar: list[tuple[int, bytes, Position]] = field(default_factory=list)
    _in_target: list[tuple[int, bytes, Position]] = field(default_factory=list)
    _last: Position = EARLIEST

    def publish_in_pulsar(self, *, messages: int = 1, only_to: str = "") -> int:
        entry = metadata(messages=messages, only_to=only_to)
        number, position = self._next(messages), self.pulsar.append(entry, self._count - 1)
        if only_to:
            self.withheld.add(number)
        else:
            self._in_target.append((number, entry, position))
        return number

    def publish_in_target(self, *, messages: int = 1) -> int:
        entry = metadata(messages=messages)
        number, position = self._next(messages), self.target.append(entry, self._count - 1)
        self.of_target.add(number)
        self._in_pulsar.append((number, entry, position))
        return number

    def carry_to_target(self) -> None:
        """Carry the next entry; links from Apache Pulsar state no previous entry."""
        if self._in_target:
            number, entry, position = self._in_target.pop(0)
            self.target.append(stamp(entry, Origin(PULSAR, position)), number)

    def carry_to_pulsar(self) -> None:
        if self._in_pulsar:
            number, entry, position = self._in_pulsar.pop(0)
            self.pulsar.append(stamp(entry, Origin(TARGET, position, self._last, self._last)), number)
            self._last = position

    def carry_all(self) -> None:
        while self._in_target or self._in_pulsar:
            self.carry_to_target()
            self.carry_to_pulsar()

    def _next(self, messages: int) -> int:
        self._count += 1
        if messages > 1:
            self.batches.add(self._count - 1)
        return self._count - 1


def random_logs(rng: Random) -> TwoLogs:
    """Return logs in which everything was carried, in any order."""
    logs = TwoLogs()
    for _ in range(rng.randrange(1, 60)):
        match rng.randrange(7):
            case 0 | 1:
                logs.publish_in_pulsar(messages=rng.choice((1, BATCH)))
            case 2:
                logs.publish_in_target(messages=rng.choice((1, BATCH)))
            case 3 | 4:
                logs.carry_to_target()
                logs.carry_to_pulsar()
            case 5:
                logs.publish_in_pulsar(only_to="B")
            case _:
                logs.pulsar.append(metadata(marker=True))
    logs.carry_all()
    return logs
