"""Delayed messages in numbers that many subscriptions multiply."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from magnetar.wire.entries.entry import build_entry
from tests.hostile.attacks.publishing import metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, frame, publishing, pump, send_frame, subscribe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target


MESSAGES = 100_000
SUBSCRIPTIONS = 1000
AT_ONCE = 200
"""Consumers that subscribe together."""


@behaviour("100,000 delayed messages on a topic with 1,000 Shared subscriptions.", seconds=20.0)
def for_many_subscriptions(target: Target) -> int:
    def late(number: int) -> bytes:
        delay_ms = 500 + number * 7919 % 100_000
        head = metadata(sequence_id=number, deliver_at_time=time.time_ns() // 1_000_000 + delay_ms)
        return send_frame(build_entry(head, b"x"), number)

    def publishes() -> Iterator[bytes]:
        for start in range(0, MESSAGES, 500):
            yield b"".join(map(late, range(start, start + 500)))

    with connect(target) as connection, publishing(target) as producer:
        for start in range(0, SUBSCRIPTIONS, AT_ONCE):
            ids = range(start, start + AT_ONCE)
            connection.socket.sendall(b"".join(subscribe(target.topic(), each, f"s{each}") for each in ids))
            for _ in ids:
                connection.expect("SUCCESS")
            connection.socket.sendall(b"".join(frame("FLOW", consumer_id=each, messagePermits=1000) for each in ids))
        return SUBSCRIPTIONS + pump(target, producer, publishes())
