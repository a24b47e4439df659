"""Chunks of messages that wait for the consumer of the first chunk."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from magnetar.wire.entries.entry import build_entry
from tests.hostile.attacks.publishing import metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import frame, publishing, pump, send_frame, subscribe

if TYPE_CHECKING:
    from tests.hostile.catalogue import Target

ENDLESS = 1_000_000_000


def _chunk(number: int) -> bytes:
    head = metadata(uuid="u", num_chunks_from_msg=2**31 - 1, chunk_id=number, total_chunk_msg_size=2**31 - 1)
    return send_frame(build_entry(head, b"x"), number, is_chunk=True)


@behaviour("Chunks of one message without end, whose consumer has permits for a few of them.", seconds=10.0)
def without_permits(target: Target) -> int:
    consumers = b"".join(
        subscribe(target.topic(), each, priority_level=each) + frame("FLOW", consumer_id=each, messagePermits=permits)
        for each, permits in ((1, 1), (2, ENDLESS))
    )
    chunks = b"".join(map(_chunk, range(1000)))
    more = frame("FLOW", consumer_id=1, messagePermits=1)
    with publishing(target) as connection:
        connection.socket.sendall(consumers)
        sent = pump(target, connection, [chunks] * 60)
        return sent + pump(target, connection, itertools.repeat(more * 10))
