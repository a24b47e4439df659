"""Clusters of both systems with the pipeline only, while every process is killed once."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.interop.conftest import has_messages, wait_until_carried
from tests.kit.messages import read_log
from tests.kit.pulsar import MixedClusters
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MESSAGES = 100_000
"""Messages from each cluster."""

RATE = 1_000
"""Messages per second from each cluster, so that the kills occur during publishing."""

PUBLISH_TIMEOUT_S = 180.0
CATCH_UP_TIMEOUT_S = 300.0
QUIET_S = 3.0
"""Time in which a circulating message would arrive."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@contextmanager
def publishing(client: pulsar.Client, topic: str, origin: str) -> Iterator[Callable[[], int]]:
    """Publish MESSAGES messages in the background, and yield a function for the number of receipts; wait for all."""
    producer = client.create_producer(
        topic, batching_enabled=False, block_if_queue_full=True, max_pending_messages=1000, send_timeout_millis=0
    )
    results: list[pulsar.Result] = []

    def publish() -> None:
        started = time.monotonic()
        for number in range(MESSAGES):
            if (ahead := number / RATE - (time.monotonic() - started)) > 0:
                time.sleep(ahead)
            producer.send_async(b"%s-%d" % (origin.encode(), number), lambda result, _id: results.append(result))
        producer.flush()

    thread = threading.Thread(target=publish)
    thread.start()
    yield lambda: len(results)
    thread.join()
    assert set(results) == {pulsar.Result.Ok}
    assert len(results) == MESSAGES


def have_all(receipts: list[Callable[[], int]], number: int) -> bool:
    """Return whether each publisher has ``number`` receipts."""
    return all(count() >= number for count in receipts)


def kill(clusters: MixedClusters, victim: str) -> None:
    match victim:
        case "worker":
            clusters.kill_worker()
        case "driver":
            clusters.kill_pipeline()
            clusters.start_pipeline()
        case _:
            next(server for server in clusters.servers() if server.cluster == victim).restart()


def test_every_log_holds_every_message_once_in_its_origins_order(peer: None, tmp_path: Path) -> None:
    with MixedClusters(tmp_path, magnetar=("ewr", "jfk"), apache=("apache",)) as mesh, ExitStack() as publishers:
        topic = "persistent://interop/mesh/t"
        mesh.make_carried_namespace("interop/mesh")
        for name in mesh.members:
            mesh.client(name).subscribe(topic, "keeps the log").close()
        mesh.start_pipeline()
        wait_until_carried(mesh, "persistent://interop/mesh/first")
        receipts = [publishers.enter_context(publishing(mesh.client(name), topic, name)) for name in mesh.members]
        victims = ("worker", "ewr", "worker", "apache", "driver", "jfk")
        for number, victim in enumerate(victims, start=1):
            wait_until(partial(have_all, receipts, number * MESSAGES // (len(victims) + 1)), PUBLISH_TIMEOUT_S)
            kill(mesh, victim)
        publishers.close()
        own = {name: log_of(mesh, name, topic, origin=name) for name in mesh.members}
        for origin, log in own.items():
            # A client resends messages without a receipt after a kill, so its own log may have them twice.
            assert list(dict.fromkeys(log)) == [b"%s-%d" % (origin.encode(), number) for number in range(MESSAGES)]
        for name in mesh.members:
            has = partial(has_messages, mesh, name, topic, sum(map(len, own.values())))
            wait_until(has, CATCH_UP_TIMEOUT_S, what=f"all in {name}", interval_s=5.0)
        time.sleep(QUIET_S)
        for name in mesh.members:
            for origin, log in own.items():
                assert log_of(mesh, name, topic, origin=origin) == log, f"{origin} in {name}"


def log_of(clusters: MixedClusters, name: str, topic: str, origin: str) -> list[bytes]:
    """Return the payloads published in ``origin``, in the order of the log of ``name``."""
    prefix = f"{origin}-".encode()
    log = [message.data() for message in read_log(clusters.client(name), topic)]
    return [payload for payload in log if payload.startswith(prefix)]
