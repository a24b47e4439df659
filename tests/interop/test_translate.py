"""``magnetar pipeline translate`` between two Apache Pulsars that replicate to each other."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulsar
import pyarrow.parquet as pq
import pytest

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.geo.helpers import wait_for_entries
from tests.interop.conftest import replicated_topic
from tests.kit.clusters import MAGNETAR
from tests.kit.messages import (
    RECEIVE_TIMEOUT_MS,
    entry_of,
    nothing_comes,
    numbered,
    publish,
    read_log,
    receive,
    receive_data,
    send_all,
)
from tests.kit.raw import RawConnection, entry
from tests.kit.wait import wait_until
from tests.spark.queries import publish_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.kit.clusters import Group
    from tests.kit.messages import Option
    from tests.kit.pulsar import MixedClusters, PulsarClusters

    Place = tuple[int, int]
    """A ledger and an entry."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3_000)]

COUNT = int(os.environ.get("MAGNETAR_TRANSLATE_MESSAGES", "200000"))
SHARE_OF_TWO = 10
"""One of so many messages is published in the other cluster."""

OUT_OF_ORDER = 20
"""One of so many entries is acknowledged individually."""

PAIRS = 10
"""Messages that a producer has sent twice, as after a lost receipt."""

CARRIED_TIMEOUT_S = 1_200.0
COMMAND_TIMEOUT_S = 1_200.0
DELETED_TIMEOUT_S = 90.0
IDS_MAX = 500
SUBSCRIPTION = "flights/s"
"""A name that Apache Pulsar encodes in its internal stats."""

RANGE = re.compile(r"\((\d+):(-?\d+)\.\.\1:(\d+)\]")


@dataclass
class Log:
    """The log of one cluster."""

    payloads: dict[Place, tuple[bytes, ...]] = field(default_factory=dict)
    """The messages of each entry, in order."""

    def places(self) -> dict[tuple[bytes, ...], list[Place]]:
        """Return the entries with each content."""
        found: dict[tuple[bytes, ...], list[Place]] = {}
        for place, payloads in self.payloads.items():
            found.setdefault(payloads, []).append(place)
        return found


def log_of(pair: PulsarClusters, name: str, topic: str) -> Log:
    log = Log()
    for message in read_log(pair.client(name), topic):
        place = entry_of(message.message_id())
        log.payloads[place] = (*log.payloads.get(place, ()), message.data())
    return log


def publish_everywhere(pair: PulsarClusters, topic: str, **options: Option) -> None:
    """Publish numbers in both clusters at the same time, and some messages twice in the first one."""
    of_two = COUNT // SHARE_OF_TWO

    def publish(name: str, payloads: Sequence[bytes]) -> None:
        producer = pair.client(name).create_producer(topic, block_if_queue_full=True, **options)
        send_all(producer, [(payload, {}) for payload in payloads])
        producer.close()

    with ThreadPoolExecutor(2) as threads:
        futures = [
            threads.submit(publish, "one", numbered(COUNT - of_two)),
            threads.submit(publish, "two", numbered(of_two, first=COUNT)),
        ]
        twice = [entry(b"twice %d" % number, number, publish_time=1_700_000_000_000) for number in range(PAIRS)]
        publish_entries(pair.pulsars["one"], topic, twice)
        for future in futures:
            future.result()
    publish_entries(pair.pulsars["one"], topic, twice)


def wait_until_equal(pair: PulsarClusters, topic: str) -> None:
    """Wait until both clusters have all messages."""

    def is_equal() -> bool:
        path = topic.replace("://", "/")
        stats = {name: pair.rest(name).get(f"{path}/stats") for name in pair.members}
        backlogs = [link["replicationBacklog"] for each in stats.values() for link in each["replication"].values()]
        counts = {pair.rest(name).get(f"{path}/internalStats")["entriesAddedCounter"] for name in pair.members}
        return len(counts) == 1 and not any(backlogs)

    wait_until(is_equal, CARRIED_TIMEOUT_S, what="everything in both clusters", interval_s=1)


def chosen(log: Log, rng: random.Random) -> tuple[Place, list[Place]]:
    """Return the mark-delete position, and the entries to acknowledge after it: some, and the copies of some pairs."""
    order = sorted(log.payloads)
    half = len(order) // 2
    twice = {place for place in order if log.payloads[place][0].startswith(b"twice")}
    later = [place for place in order[half + 1 :] if place not in twice]
    some = rng.sample(later, min(len(later), max(1, len(order) // OUT_OF_ORDER)))
    copies = [place for place in order[half + 1 :] if log.payloads[place][0] in (b"twice 1", b"twice 2")]
    return order[half], sorted([*some, *copies])


def acknowledge(pair: PulsarClusters, topic: str, mark: Place, places: Sequence[Place], partly: Place | None) -> None:
    """Acknowledge in the first cluster; of the batch ``partly`` only the first message."""

    def ids(some: Sequence[Place]) -> list[pb.MessageIdData]:
        return [pb.MessageIdData(ledgerId=ledger, entryId=number) for ledger, number in some]

    with RawConnection.connected(pair.pulsars["one"].service_url) as raw:
        raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic)
        raw.subscribe(topic, SUBSCRIPTION, subType=pb.CommandSubscribe.Exclusive)
        raw.acknowledge(*ids([mark]), cumulative=True)
        for first in range(0, len(places), IDS_MAX):
            raw.acknowledge(*ids(places[first : first + IDS_MAX]))
        if partly is not None:
            raw.acknowledge(pb.MessageIdData(ledgerId=partly[0], entryId=partly[1], ack_set=[-2], batch_size=64))


def run(clusters: Group, topic: str, *arguments: str, work: Path) -> tuple[int, dict[str, Any], str]:
    """Run the command from the first cluster to the second one, by name; return status, report and messages."""
    one, two = (f"{name}={clusters.members[name].admin_url}" for name in sorted(clusters.members))
    options = ["--from", one, "--to", two, "--topics", topic, "--state", str(work / "state"), "--apply"]
    options += ["--master", "local[2]", "--work-dir", str(work / "work"), "--spark-log", str(work / "spark.log")]
    command = [*MAGNETAR, "pipeline", "translate", *options, "--output", "json", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=COMMAND_TIMEOUT_S)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def acknowledged_in(log: Log, mark: str, ranges: Iterator[tuple[int, int, int]]) -> set[Place]:
    """Return the entries of a state."""
    ledger, _, number = mark.partition(":")
    found = {place for place in log.payloads if place <= (int(ledger), int(number))}
    for of_ledger, first, last in ranges:
        found |= {(of_ledger, each) for each in range(first, last + 1)}
    return found


@pytest.mark.parametrize("batching", [False, True], ids=["unbatched", "batches"])
def test_the_state_of_the_target_is_the_truth(pair: PulsarClusters, tmp_path: Path, *, batching: bool) -> None:
    topic = replicated_topic(pair)
    for name in pair.members:
        retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        pair.rest(name).post(f"namespaces/{topic.split('://')[1].rpartition('/')[0]}/retention", retention)
    pair.client("one").subscribe(topic, "first").close()
    publish_everywhere(pair, topic, batching_enabled=batching)
    wait_until_equal(pair, topic)
    one, two = (log_of(pair, name, topic) for name in ("one", "two"))
    places, copies = one.places(), two.places()
    assert places.keys() == copies.keys()
    assert sum(map(len, one.payloads.values())) == COUNT + 2 * PAIRS
    assert list(one.payloads.values()) != list(two.payloads.values()), "the orders differ"

    mark, later = chosen(one, random.Random(17))
    large = [place for place in sorted(one.payloads) if place > mark and len(one.payloads[place]) > 1]
    partly = next((place for place in large if place not in later), None)
    acknowledge(pair, topic, mark, later, partly)
    done = {place for place in one.payloads if place <= mark} | set(later)
    truth = {place for place, each in two.payloads.items() if done >= set(places[each])}
    half_done = {place for place, each in two.payloads.items() if 0 < len(done & set(places[each])) < len(places[each])}
    assert half_done
    assert truth

    mapping = tmp_path / "mapping"
    status, report, said = run(pair, topic, "--mapping", str(mapping), work=tmp_path)
    assert status == 0, said
    (state,) = [each for each in report["subscriptions"] if each["subscription"] == SUBSCRIPTION]
    assert acknowledged_in(two, state["markDeletePosition"], map(tuple, state["ranges"])) == truth
    assert (state["applied"], state["ahead"], state["onlyInSource"]) == (True, 0, 0)
    named = {tuple(map(int, text.split(":"))) for text in state["undecidedPositions"]}
    assert named == half_done
    ambiguous = {tuple(map(int, each["position"].split(":"))) for each in report["ambiguous"]}
    assert ambiguous == {place for each in copies.values() if len(each) > 1 for place in each}
    check_mapping(mapping, one, places, copies)

    cursor = pair.rest("two").get(f"{topic.replace('://', '/')}/internalStats")["cursors"][
        SUBSCRIPTION.replace("/", "%2F")
    ]
    ranges = (
        (int(ledger), int(low) + 1, int(high))
        for ledger, low, high in RANGE.findall(cursor["individuallyDeletedMessages"])
    )
    assert acknowledged_in(two, cursor["markDeletePosition"], ranges) == truth
    consumer = pair.client("two").subscribe(topic, SUBSCRIPTION)
    rest = [message for place, each in sorted(two.payloads.items()) if place not in truth for message in each]
    assert [consumer.receive(RECEIVE_TIMEOUT_MS).data() for _ in rest] == rest
    assert nothing_comes(consumer)

    status, report, said = run(pair, topic, work=tmp_path)
    (state,) = [each for each in report["subscriptions"] if each["subscription"] == SUBSCRIPTION]
    assert (status, report["entriesRead"], state["applied"]) == (1, 0, False), said
    assert state["refusal"] == "the subscription has 1 consumers in the target"


def check_mapping(
    directory: Path,
    one: Log,
    places: dict[tuple[bytes, ...], list[Place]],
    copies: dict[tuple[bytes, ...], list[Place]],
) -> None:
    """Check the positions of all entries in both clusters."""
    found: dict[Place, list[Place]] = {}
    for row in pq.read_table(directory).to_pylist():
        source = (row["source_ledger"], row["source_entry"])
        found.setdefault(source, []).append((row["target_ledger"], row["target_entry"]))
        assert row["match"] == ("mapped" if len(places[one.payloads[source]]) == 1 else "ambiguous")
    assert found == {place: copies[payloads] for place, payloads in one.payloads.items()}


def test_a_subscription_moves_to_magnetar(mixed: MixedClusters, tmp_path: Path) -> None:
    topic = replicated_topic(mixed)
    consumer = mixed.client("apache").subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared)
    mixed.client("ewr").subscribe(topic, "keeps the log").close()
    publish(mixed.client("apache"), topic, numbered(300), batching_enabled=False)
    wait_for_entries(mixed, topic, 300, ["ewr"])
    messages = receive(consumer, 300)
    for message in (*messages[:100], *messages[150:300:3]):
        consumer.acknowledge(message)
    consumer.close()
    status, report, said = run(mixed, topic, "--subscriptions", SUBSCRIPTION, work=tmp_path)
    assert status == 0, said
    (state,) = report["subscriptions"]
    assert (state["applied"], state["unacknowledged"]) == (True, 150)
    moved = mixed.client("ewr").subscribe(topic, SUBSCRIPTION)
    rest = [b"%d" % number for number in range(100, 300) if number < 150 or number % 3]
    assert receive_data(moved, len(rest)) == rest
    assert nothing_comes(moved)


def test_messages_that_the_source_has_deleted_are_acknowledged(pair: PulsarClusters, tmp_path: Path) -> None:
    topic = replicated_topic(pair)
    path = topic.replace("://", "/")
    pair.client("two").subscribe(topic, "keeps the log").close()
    consumer = pair.client("one").subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared)
    publish(pair.client("one"), topic, numbered(50), batching_enabled=False)
    receive(consumer, 50, acknowledge=True)
    wait_for_entries(pair, topic, 50, ["two"])
    publish(pair.client("two"), topic, [b"of two"])
    receive(consumer, 1, acknowledge=True)
    consumer.close()
    pair.rest("one").put(f"{path}/unload")
    wait_until(
        lambda: pair.rest("one").get(f"{path}/internalStats")["numberOfEntries"] == 0,
        DELETED_TIMEOUT_S,
        what="the ledger that was read is deleted",
        interval_s=1,
    )
    consumer = pair.client("one").subscribe(topic, SUBSCRIPTION, pulsar.ConsumerType.Shared)
    publish(pair.client("one"), topic, numbered(50, first=50), batching_enabled=False)
    wait_for_entries(pair, topic, 101, ["two"])
    messages = receive(consumer, 50)
    for message in messages[::2]:
        consumer.acknowledge(message)
    consumer.close()
    status, report, said = run(pair, topic, "--subscriptions", SUBSCRIPTION, work=tmp_path)
    assert status == 0, said
    (counts,) = report["topics"]
    assert (counts["mapped"], counts["deletedInSource"], counts["missingInSource"]) == (50, 50, 1)
    moved = pair.client("two").subscribe(topic, SUBSCRIPTION)
    assert receive_data(moved, 26) == [b"of two", *numbered(50, first=50)[1::2]]
    assert nothing_comes(moved)
