"""A client with the largest and most complex schemas that are accepted."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from magnetar.schema.avro_definition import LIST_MAX
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.processes import waited_seconds_of_threads
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from tests.kit.broker import Broker
    from tests.robustness.conftest import Bystander

DELAY_MAX_S = 0.1
"""How long another client's request may take meanwhile, without the time in which broker or client got no processor."""

ATTEMPTS = 5
"""The machine may stop the process for longer. A blocked event loop would be slow each time."""


def large_definition(number: int) -> bytes:
    """A definition of half a megabyte, which takes a second to parse and to compare."""
    fields = [{"name": f"f{each}", "type": ["null", "long"], "default": None} for each in range(LIST_MAX - 400)]
    records = [
        {"name": f"r{each}", "type": {"type": "record", "name": f"R{each}", "fields": fields}} for each in range(2)
    ]
    definition = {"type": "record", "name": "Large", "version": number, "fields": records}
    return json.dumps(definition, separators=(",", ":")).encode()


def delays_while(connection: RawConnection, topic: str, work: threading.Thread, broker_pid: int) -> list[float]:
    """The seconds that lookups take until ``work`` is done; a busy machine does not count."""
    delays: list[float] = []
    while work.is_alive():
        waited_s, begun = waited_by(broker_pid, os.getpid()), time.perf_counter()
        connection.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic)
        delay_s = time.perf_counter() - begun
        delays.append(delay_s - max(0.0, waited_by(broker_pid, os.getpid()) - waited_s))  # negative if a thread ended
        time.sleep(0.002)
    return delays


def waited_by(*pids: int) -> float:
    """The seconds for which these processes have waited for a processor."""
    return sum(map(waited_seconds_of_threads, pids))


def test_large_schemas_do_not_block_others(broker: Broker, bystander: Bystander) -> None:
    assert bystander.goes_on()
    topic = f"persistent://public/default/large-{secrets.token_hex(4)}"
    worst: list[float] = []
    answers: list[int] = []
    with ExitStack() as opened:
        hostile = opened.enter_context(RawConnection.connected(broker.service_url))
        other = opened.enter_context(RawConnection.connected(broker.service_url))

        def register(number: int) -> None:
            definition = large_definition(number)
            assert 450_000 < len(definition) <= 512 * 1024
            schema = pb.Schema(name="Large", schema_data=definition, type=pb.Schema.Avro)
            answer = hostile.request("PRODUCER", "PRODUCER_SUCCESS", topic=topic, producer_id=number, schema=schema)
            answers.append(answer.schema_version[-1])

        for number in range(ATTEMPTS):
            work = threading.Thread(target=register, args=(number,))
            work.start()
            delays = delays_while(other, topic, work, broker.pid)
            work.join()
            assert len(delays) > 10, "the check takes long enough to be measured"
            worst.append(max(delays))
    assert answers == list(range(ATTEMPTS))
    assert min(worst[1:]) < DELAY_MAX_S, worst
