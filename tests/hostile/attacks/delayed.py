"""Delayed messages in numbers that many subscriptions multiply."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from magnetar.wire.entries.entry import build_entry
from tests.hostile.attacks.consuming import CROWD
from tests.hostile.attacks.publishing import metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, frame, publishing, pump, send_frame, subscribe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target


@behaviour("Delayed messages without end, on a topic with 3,000 Shared subscriptions.", seconds=14.0)
def for_many_subscriptions(target: Target) -> int:
    def late(number: int) -> bytes:
        delay_ms = 500 + number * 7919 % 100_000
        head = metadata(sequence_id=number, deliver_at_time=time.time_ns() // 1_000_000 + delay_ms)
        return send_frame(build_entry(head, b"x"), number)

    def publishes() -> Iterator[bytes]:
        for start in itertools.count(step=500):
            yield b"".join(map(late, range(start, start + 500)))

    consumers = (
        subscribe(target.topic(), each, f"s{each}") + frame("FLOW", consumer_id=each, messagePermits=1000)
        for each in range(CROWD)
    )
    with connect(target) as connection, publishing(target) as producer:
        return pump(target, connection, consumers) + pump(target, producer, publishes())
