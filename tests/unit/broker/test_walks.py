"""An entry and an acknowledgement pass the packages in the order of the drawings in ARCHITECTURE.md."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Self

import magnetar
from magnetar.base.real import SystemFiles
from magnetar.broker.housekeeping import maintenance
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.links import LEASE_METADATA, link_producer, link_subscription
from magnetar.wire.message_id import link_of, position_of
from tests.kit.in_process import BrokerInProcess
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import CodeType, FrameType

SOURCE = f"{Path(magnetar.__file__).parent}/"
TOPIC = "persistent://public/walk/t"
SUBSCRIPTION = "worker"

NOT_DRAWN = {
    *("broker", "broker/loop", "broker/resources", "broker/settings", "broker/delayed"),  # used by all others
    *("broker/web", "broker/admin", "broker/migration_fence"),  # the test requests statistics meanwhile
}


class Tracer:
    """Records the functions called by threads that start within the context, without those of periodic maintenance."""

    def __init__(self) -> None:
        self._codes: list[CodeType] | None = None

    def __enter__(self) -> Self:
        threading.setprofile(self._called)
        return self

    def __exit__(self, *_exception: object) -> None:
        threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        if self._codes is not None and event == "call" and not _is_maintenance(frame):
            self._codes.append(frame.f_code)

    @contextmanager
    def on(self, codes: list[CodeType]) -> Iterator[None]:
        """Add the functions called within the context to ``codes``."""
        self._codes = codes
        try:
            yield
        finally:
            self._codes = None


def _is_maintenance(frame: FrameType) -> bool:
    outer: FrameType | None = frame
    while outer is not None:
        if outer.f_code is maintenance.repeat.__code__:
            return True
        outer = outer.f_back
    return False


def walk_of(codes: list[CodeType]) -> list[str]:
    """Return the packages of functions, each once for consecutive calls."""
    files = [code.co_filename for code in codes]
    folders = [str(Path(file).parent).removeprefix(SOURCE) for file in files if file.startswith(SOURCE)]
    return [package for package, _ in groupby(map(package_of, folders))]


def package_of(folder: str) -> str:
    """Return the package of the broker, or another one, for a directory."""
    parts = folder.split("/")
    return "/".join(parts[:2]) if parts[0] == "broker" else parts[0]


def drawn(first_words: str) -> list[str]:
    """Return the packages of the drawing that begins with these words, from top to bottom."""
    text = (Path(__file__).parents[3] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    match = re.search(rf"^{first_words}.*?```\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    cells = [line.split("│")[1].strip() for line in match[1].splitlines() if "│" in line]
    return [cell for cell in cells if cell]


def assert_walked(walk: list[str], drawing: list[str]) -> None:
    """Check that the walk contains the drawing in order, and that the drawing has all packages of the broker."""
    rest = iter(walk)
    for number, package in enumerate(drawing):
        assert package in rest, f"{package} does not follow {drawing[:number]} in {walk}"
    assert {each for each in walk if each.startswith("broker")} - NOT_DRAWN <= set(drawing)


class TwoBrokers:
    """Two brokers that replicate to each other; the test acts as the pipeline."""

    def __init__(self, directory: Path) -> None:
        self.brokers = {
            name: BrokerInProcess(directory / name, SystemFiles(), clusterName=name) for name in ("ewr", "jfk")
        }

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.__enter__()
        for broker in self.brokers.values():
            for name, other in self.brokers.items():
                broker.rest.ensure(
                    f"clusters/{name}", {"serviceUrl": other.admin_url, "brokerServiceUrl": other.service_url}
                )
            broker.rest.post("tenants/public", {"adminRoles": [], "allowedClusters": ["ewr", "jfk"]})
            broker.rest.ensure("namespaces/public/walk", {"replication_clusters": ["ewr", "jfk"]})
        return self

    def __exit__(self, *_exception: object) -> None:
        for broker in self.brokers.values():
            broker.__exit__()

    def connected(self, name: str) -> RawConnection:
        return RawConnection.connected(self.brokers[name].service_url)


def test_an_entry_and_an_acknowledgement_go_the_way_that_is_drawn(tmp_path: Path) -> None:
    entry: list[CodeType] = []
    acknowledgement: list[CodeType] = []
    with Tracer() as tracer, TwoBrokers(tmp_path) as pair:
        carry(pair, partial(tracer.on, entry), partial(tracer.on, acknowledgement))
    assert_walked(walk_of(entry), drawn("An entry, from a producer"))
    assert_walked(walk_of(acknowledgement), drawn("An acknowledgement, from a consumer"))


def carry(
    pair: TwoBrokers,
    entry_traced: Callable[[], AbstractContextManager[None]],
    acknowledgement_traced: Callable[[], AbstractContextManager[None]],
) -> None:
    """Publish an entry in ewr, carry it to jfk, and acknowledge it there."""
    with (
        pair.connected("ewr") as producer,
        pair.connected("ewr") as reader,
        pair.connected("jfk") as writer,
        pair.connected("jfk") as consumer,
    ):
        producer.create_producer(TOPIC)
        writer.create_producer(TOPIC, producer_name=link_producer("ewr", "jfk"), user_provided_producer_name=True)
        lease = list(commands.key_values({LEASE_METADATA: "1"}))
        reader.subscribe(TOPIC, link_subscription("jfk"), metadata=lease)
        reader.flow(10)
        consumer.subscribe(TOPIC, SUBSCRIPTION, replicate_subscription_state=True)
        consumer.flow(10)
        wait_until(lambda: SUBSCRIPTION in subscriptions(pair, "ewr"), what="the progress link from jfk")
        wait_until(lambda: is_told_to_ewr(pair), what="all that jfk has to say")
        with entry_traced():
            producer.publish(b"an entry")
            read = reader.expect_frame("MESSAGE")
        position, link = position_of(read.command.message.message_id), link_of(read.command.message)
        origin = Origin("ewr", position, link.previous, link.floor, link.link_start)
        with entry_traced():
            writer.socket.sendall(commands.send(producer_id=1, sequence_id=0, entry=stamp(read.body, origin)))
            writer.expect("SEND_RECEIPT")
            message = consumer.expect_frame("MESSAGE").command.message
        with acknowledgement_traced():
            consumer.acknowledge(message.message_id)
            wait_until(lambda: subscriptions(pair, "ewr")[SUBSCRIPTION]["msgBacklog"] == 0, what="the acknowledgement")
            wait_until(lambda: is_told_to_ewr(pair), what="a receipt of ewr")


def subscriptions(pair: TwoBrokers, name: str) -> dict[str, dict[str, object]]:
    """Return the statistics of the topic's subscriptions in a cluster."""
    found: dict[str, dict[str, object]] = pair.brokers[name].rest.stats(TOPIC)["subscriptions"]
    return found


def is_told_to_ewr(pair: TwoBrokers) -> bool:
    """Return whether ewr has confirmed all acknowledgements of jfk."""
    unconfirmed = subscriptions(pair, "jfk")[SUBSCRIPTION]["progressUnconfirmed"]
    return unconfirmed == {"ewr": 0}
