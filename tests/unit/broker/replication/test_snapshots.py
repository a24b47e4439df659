"""Replicated subscriptions by snapshots (PIP-33) in whole brokers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import DiskFullError, RequestError
from magnetar.base.life import Life
from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.replication.stored_snapshots import SNAPSHOTS_PROPERTY
from magnetar.broker.topic.lifecycle import Event
from magnetar.geo.snapshots.claims import claimed
from magnetar.metadata.policies import Policies
from magnetar.sim import cluster as sim_cluster
from magnetar.sim.cluster import NAMESPACE, TOPIC
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import assemble, metadata_bytes, parse_metadata
from magnetar.wire.entries.markers import PROBE, marker_type
from magnetar.wire.entries.origin import SOURCE_POSITION, Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.mesh import MARKERS, Mesh
from tests.unit.broker.network import ClusterNetwork, Worker
from tests.unit.broker.replication.test_changing_clusters import configure

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.errors import StorageError
    from magnetar.cursor.ranges import Range
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.sim.cluster import Client, Cluster
    from magnetar.sim.pipe import Pipe


def acknowledge_all(mesh: Mesh, name: str, consumer: Client) -> None:
    consumer.ack(*mesh.texts(name))


def from_apache(kind: int, payload: bytes, number: int) -> bytes:
    """Return a marker in the form of Apache Pulsar's replicator."""
    entry = markers.build_marker(kind, payload, publish_time_ms=1)
    source = pb.KeyValue(key=SOURCE_POSITION, value=f"5:{number}")
    added = pb.MessageMetadata(replicated_from="apache", properties=[source]).SerializePartialToString()
    return assemble(metadata_bytes(entry) + added, payload)


def waiting(cluster: Cluster, target: str) -> int:
    """Return the number of markers that wait for a link."""
    queue = cluster.topic().replicators[target].markers
    return 0 if queue is None else len(queue)


@pytest.mark.parametrize("names", [("ewr", "jfk"), ("ewr", "jfk", "lga")])
def test_a_subscription_is_where_it_was_in_every_other_cluster(names: tuple[str, ...]) -> None:
    mesh = Mesh(*names)
    mesh.publish("ewr", "a", "b")
    mesh.publish("jfk", "c")
    consumer = mesh.subscribe("ewr")
    mesh.carry()
    mesh.second()
    assert sorted(consumer.messages()) == ["a", "b", "c"]
    positions = [mesh.end("ewr")._replace(entry_id=entry_id) for entry_id in range(3)]
    consumer.ack(*positions)
    mesh.second()
    for name in names:
        assert mesh.backlog(name) == 0
        assert mesh.clusters[name].subscription().is_replicated
        assert mesh.entries(name) == 3, "no marker is in a log"
    assert mesh.problems() == []


def test_only_the_position_up_to_which_everything_is_acknowledged_travels() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a", "b", "c")
    consumer = mesh.subscribe("ewr")
    mesh.carry()
    first, _, third = mesh.texts("ewr")
    consumer.ack(first, third)
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("jfk") == set(), "the snapshot is at the end, and the subscription is not"


def test_a_subscription_without_a_consumer_hears_of_snapshots_too() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    consumer = mesh.subscribe("ewr")
    mesh.carry()
    acknowledge_all(mesh, "ewr", consumer)
    consumer.leave()
    mesh.second()
    assert mesh.acknowledged("jfk") == {"a"}


def test_nothing_is_asked_where_nothing_happens() -> None:
    """Pitfalls #10292, #11922, #16618: markers that count as activity cause each other for ever."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    acknowledge_all(mesh, "ewr", mesh.subscribe("ewr"))
    for _ in range(4):
        mesh.second()
    taken = {name: mesh.clusters[name].topic().snapshots for name in ("ewr", "jfk")}
    before = {name: each.stats().completed for name, each in taken.items() if each is not None}
    for _ in range(20):
        mesh.loop.advance(1.01)
    assert before == {name: each.stats().completed for name, each in taken.items() if each is not None}
    assert [each._timer for each in taken.values() if each] == [None, None], "and nobody waits to look"
    assert mesh.entries("ewr") == 1


def test_a_cluster_that_never_answers_is_asked_once_in_the_time_that_a_snapshot_waits() -> None:
    """Pitfall #23839."""
    mesh = Mesh("ewr", "jfk")
    mesh.subscribe("ewr")
    pipe = mesh.pipes["ewr", "jfk"]
    for _ in range(29):
        mesh.loop.advance(1.0)
    pipe.read()
    assert len(pipe.carried) == 1
    mesh.loop.advance(5.0)
    pipe.read()
    assert len(pipe.carried) == 2
    stats = mesh.clusters["ewr"].topic().snapshots
    assert stats is not None
    assert (stats.stats().timed_out, stats.stats().pending) == (1, 1)


def test_no_snapshot_is_begun_while_a_link_is_not_carried() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.pipes["ewr", "jfk"].reader.leave()
    mesh.subscribe("ewr")
    mesh.publish("ewr", "a")
    mesh.loop.advance(1.0)
    found = mesh.clusters["ewr"].topic().snapshots
    assert found is not None
    assert found.stats().pending == 0
    mesh.pipes["ewr", "jfk"].attach(permits=10)
    mesh.loop.advance(1.0)
    assert found.stats().pending == 1


def test_markers_are_in_no_backlog_no_hole_and_no_count() -> None:
    """Pitfalls #6437, #22926, #10054, #14017."""
    mesh = Mesh("ewr", "jfk", settings={**MARKERS, "brokerDeduplicationEnabled": True})
    mesh.publish("ewr", "a", "b")
    mesh.subscribe("ewr")
    topic = mesh.clusters["jfk"].topic()
    topic.create_subscription("idle", topic.log.before_first())
    for _ in range(5):
        mesh.second()
    ewr, jfk = (mesh.clusters[name].topic() for name in ("ewr", "jfk"))
    assert (ewr.replicators["jfk"].lag.backlog, jfk.replicators["ewr"].lag.backlog) == (0, 0)
    assert ewr.replicators["jfk"].own.entries_out == 2
    assert jfk.replicators["ewr"].own.entries_out == 0
    inbound = jfk.producers.of_source("ewr")
    assert inbound is not None
    assert inbound.arrivals.messages_in == 2
    assert mesh.backlog("jfk", "idle") == 2
    assert mesh.clusters["jfk"].subscription("idle").cursor.state.deleted_ranges_count == 0
    assert (ewr.ledger.entries, jfk.ledger.entries) == (2, 2)
    assert jfk.deduplication.duplicates == 0


def test_a_subscription_that_an_update_makes_begins_at_the_earliest_entry() -> None:
    """Pitfall #20767: at the latest position it would skip entries that the update does not cover."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("jfk", "a")
    mesh.carry()
    consumer = mesh.subscribe("ewr")
    mesh.second()
    acknowledge_all(mesh, "ewr", consumer)
    mesh.publish("jfk", "b")
    mesh.second()
    assert mesh.acknowledged("jfk") == {"a"}
    assert mesh.backlog("jfk") == 1


def test_an_update_acknowledges_also_where_the_subscription_is_not_replicated_and_consumed_from() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    mesh.carry()
    elsewhere = mesh.subscribe("jfk", replicate=False)
    assert elsewhere.messages() == ["a"]
    acknowledge_all(mesh, "ewr", mesh.subscribe("ewr"))
    mesh.second()
    assert mesh.acknowledged("jfk") == {"a"}
    assert not mesh.clusters["jfk"].subscription().is_replicated


def at_latest(mesh: Mesh, name: str) -> Client:
    """Create the subscription at the end of a cluster's log."""
    client = mesh.clusters[name].client()
    client.subscribe(replicate_subscription_state=True, initialPosition=pb.CommandSubscribe.Latest)
    return client


def test_the_start_of_a_subscription_acknowledges_nothing_in_other_clusters() -> None:
    """Three clusters: one has a backlog, one has no subscription, one creates it at the end of its log."""
    mesh = Mesh("ewr", "jfk", "lga")
    mesh.subscribe("jfk", permits=0)
    mesh.publish("jfk", *"abc")
    mesh.publish("lga", "d")
    mesh.carry()
    consumer = at_latest(mesh, "ewr")
    for _ in range(3):
        mesh.second()
    mesh.publish("lga", "e")
    mesh.carry()
    assert mesh.backlog("jfk") == 5
    assert mesh.backlog("lga") == 1, "it was created there where it starts in ewr"
    assert consumer.messages() == ["e"]
    acknowledge_all(mesh, "ewr", consumer)
    mesh.publish("lga", "f")
    for _ in range(3):
        mesh.second()
    acknowledge_all(mesh, "lga", mesh.subscribe("lga"))
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("jfk") == {"e", "f"}, "lga does not claim what lies before the start either"


def test_of_two_starts_each_counts_in_its_own_cluster() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("jfk", "a")
    mesh.carry()
    at_latest(mesh, "jfk")
    mesh.publish("jfk", "b")
    mesh.carry()
    at_latest(mesh, "ewr")
    mesh.publish("jfk", "c")
    mesh.carry()
    consumer = mesh.subscribe("ewr")
    acknowledge_all(mesh, "ewr", consumer)
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("jfk") == {"a", "c"}, "b is in the backlog of jfk, and before the start in ewr"
    mesh.clusters["ewr"].crash()
    mesh.pipes["ewr", "jfk"].attach(permits=1000)
    mesh.pipes["jfk", "ewr"].attach(permits=1000)
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("jfk") == {"a", "c"}, "the start is known after a restart"


def test_entries_left_out_by_a_link_are_not_acknowledged_at_their_origin() -> None:
    """The link to sfo begins in the middle: sfo never held earlier entries, so it claims none of them."""
    network = ClusterNetwork("jfk", "lga", settings={**MARKERS, "replicationStartAt": "latest"})
    network.publish("jfk", "a", "b")
    worker = Worker(network, "jfk")
    worker.leave()
    network.add("sfo", targets=["jfk", "lga"])
    configure(network, "jfk", "lga", "sfo")
    network.publish("jfk", "c")
    network.carry()
    late = Worker(network, "sfo")
    assert late.read() == ["c"]
    late.ack("c")
    for _ in range(4):
        network.progress(1.01)
        network.carry()
    assert Worker(network, "jfk").read() == ["a", "b"]


@pytest.mark.parametrize("is_sought", [False, True])
def test_a_message_that_is_not_meant_for_a_cluster_is_not_acknowledged_by_its_updates(*, is_sought: bool) -> None:
    """Nobody consumed it: the cluster that sends the update never held it."""
    mesh = Mesh("ewr", "jfk", "lga")
    mesh.publish("jfk", "a")
    publisher = mesh.clusters["jfk"].client()
    publisher.produce()
    publisher.say(
        commands.send(producer_id=1, sequence_id=0, entry=sim_cluster.entry("to lga alone", replicate_to=["lga"]))
    )
    mesh.carry()
    consumer = mesh.subscribe("ewr")
    if is_sought:
        consumer.say(commands.seek(consumer_id=1, request_id=consumer.request_id(), position=EARLIEST))
        consumer = mesh.subscribe("ewr")
    mesh.second()
    mesh.publish("jfk", "b")
    mesh.carry()
    acknowledge_all(mesh, "ewr", consumer)
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("ewr") == {"a", "b"}
    assert mesh.acknowledged("jfk") == mesh.acknowledged("lga") == {"a", "b"}


def test_holes_that_nobody_claims_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.subscribe("jfk", permits=0)
    mesh.publish("jfk", "a", "b")
    mesh.carry()
    consumer = at_latest(mesh, "ewr")
    looked_at: list[Position] = []

    def looking(*given: Any) -> list[Range]:  # noqa: ANN401 - as the function that it replaces
        looked_at.append(given[2].first)
        return claimed(*given)

    monkeypatch.setattr("magnetar.broker.replication.subscription_updates.claimed", looking)
    for text in ("c", "d", "e"):
        mesh.publish("jfk", text)
        mesh.carry()
        acknowledge_all(mesh, "ewr", consumer)
        mesh.second()
    assert mesh.acknowledged("jfk") == {"c", "d", "e"}
    assert looked_at[0] == EARLIEST
    assert looked_at[-1] >= mesh.end("jfk")._replace(entry_id=3)
    back = mesh.clusters["jfk"].client()
    back.subscribe(permits=0)
    back.say(commands.seek(consumer_id=1, request_id=back.request_id(), position=EARLIEST))
    assert mesh.acknowledged("jfk") == set()
    mesh.publish("jfk", "f")
    mesh.carry()
    acknowledge_all(mesh, "ewr", consumer)
    mesh.second()
    assert mesh.acknowledged("jfk") == {"c", "d", "e", "f"}, "as before: only the way forward travels"


def test_an_update_leaves_a_reader_of_the_same_name_alone() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a", "b")
    mesh.carry()
    reader = mesh.clusters["jfk"].client()
    reader.subscribe(durable=False, permits=0)
    acknowledge_all(mesh, "ewr", mesh.subscribe("ewr"))
    for _ in range(3):
        mesh.second()
    reader.say(commands.flow(consumer_id=1, message_permits=10))
    assert reader.messages() == ["a", "b"]


def test_a_seek_forward_travels_with_everything_before_it() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a", "b", "c")
    mesh.carry()
    mesh.subscribe("jfk", permits=0)
    consumer = mesh.subscribe("ewr")
    mesh.second()
    mesh.publish("ewr", "d")
    consumer.say(commands.seek(consumer_id=1, request_id=consumer.request_id(), position=mesh.end("ewr")))
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("jfk") == {"a", "b", "c"}


def test_a_subscription_that_was_moved_back_stays_there() -> None:
    """A waiting update must not undo a seek, here or there."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a", "b")
    consumer = mesh.subscribe("ewr")
    mesh.second()
    mesh.second()
    mesh.pipes["ewr", "jfk"].reader.leave()
    acknowledge_all(mesh, "ewr", consumer)
    mesh.loop.advance(0.1)
    mesh.clusters["ewr"].settle()
    assert waiting(mesh.clusters["ewr"], "jfk") == 1
    consumer.say(commands.seek(consumer_id=1, request_id=consumer.request_id(), position=mesh.end("ewr")))
    assert waiting(mesh.clusters["ewr"], "jfk") == 0


def test_a_first_request_that_was_under_way_when_a_link_was_handed_over_is_made_anew_with_the_next_tick() -> None:
    mesh = Mesh("ewr", "jfk")
    consumer = mesh.subscribe("ewr")
    mesh.loop.advance(0.1)
    pipe = mesh.pipes["ewr", "jfk"]
    pipe.read()
    assert len(pipe.carried) == 1
    pipe.attach(permits=1000)
    mesh.publish("ewr", "a")
    mesh.second()
    mesh.second()
    acknowledge_all(mesh, "ewr", consumer)
    mesh.second()
    assert mesh.acknowledged("jfk") == {"a"}


def updates_in(pipe: Pipe) -> int:
    """Return the number of updates that the holder of a link has got and not sent."""
    return sum(marker_type(parse_metadata(entry)) == markers.UPDATE for entry in pipe.entries)


def acknowledged_with_update() -> Mesh:
    """The pipeline holds an update of a subscription, which no entry follows."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    consumer = mesh.subscribe("ewr")
    mesh.second()
    mesh.second()
    acknowledge_all(mesh, "ewr", consumer)
    mesh.loop.advance(0.1)
    mesh.clusters["ewr"].settle()
    mesh.pipes["ewr", "jfk"].read()
    assert updates_in(mesh.pipes["ewr", "jfk"]) == 1
    return mesh


@pytest.mark.parametrize("silent_s", [0.0, 2 * KEEP_ALIVE_INTERVAL_SECONDS], ids=["at once", "after keep-alive"])
def test_news_that_was_under_way_when_a_link_was_lost_arrives_all_the_same(silent_s: float) -> None:
    """Nothing later would report the acknowledgement: without entries there is no snapshot."""
    mesh = acknowledged_with_update()
    pipe = mesh.pipes["ewr", "jfk"]
    assert len(pipe.carried) == 1
    mesh.loop.advance(silent_s)
    pipe.attach(permits=10)
    mesh.carry()
    assert mesh.acknowledged("jfk") == {"a"}


def test_an_update_that_a_link_repeats_does_not_undo_a_seek() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a", "b")
    consumer = mesh.subscribe("ewr")
    mesh.second()
    mesh.second()
    first, second = mesh.texts("ewr")
    consumer.ack(first, second)
    mesh.second()
    assert mesh.acknowledged("jfk") == {"a", "b"}
    mover = mesh.subscribe("jfk", permits=0)
    mover.say(commands.seek(consumer_id=1, request_id=mover.request_id(), position=EARLIEST))
    mesh.pipes["ewr", "jfk"].attach(permits=1000)
    mesh.carry()
    assert mesh.acknowledged("jfk") == set()
    mesh.publish("ewr", "c")
    mesh.carry()
    consumer.ack(mesh.end("ewr"))
    mesh.second()
    mesh.second()
    assert mesh.acknowledged("jfk") == {"a", "b", "c"}, "a later update counts: an update only moves forward"


def test_an_update_that_the_target_confirmed_is_not_repeated() -> None:
    """Apache Pulsar would apply it again: it would undo a seek that was made there meanwhile."""
    mesh = acknowledged_with_update()
    pipe = mesh.pipes["ewr", "jfk"]
    pipe.run()
    for _ in range(3):
        pipe.attach(permits=1000)
        assert updates_in(pipe) == 0
        pipe.run()


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_an_unloaded_topic_repeats_only_updates_that_may_be_lost(*, is_confirmed: bool) -> None:
    mesh = acknowledged_with_update()
    pipe, ewr = mesh.pipes["ewr", "jfk"], mesh.clusters["ewr"]
    if is_confirmed:
        pipe.run()
    for _ in range(2):
        ewr.do(lambda: ewr.topics.unload(TOPIC))
        assert ewr.topic().snapshots is not None
        pipe.attach(permits=1000)
        assert updates_in(pipe) == (0 if is_confirmed else 1)


@pytest.mark.parametrize("entries", [0, 1])
def test_confirmations_of_what_was_sent_before_an_update_do_not_confirm_it(entries: int) -> None:
    """An update has the place of the entry or the probe before it, so their confirmations name the same position."""
    mesh = acknowledged_with_update()
    pipe = mesh.pipes["ewr", "jfk"]
    pipe.attach(permits=1000)
    mesh.publish("ewr", *"bc"[:entries])
    mesh.clusters["ewr"].settle()
    pipe.read()
    assert [marker_type(parse_metadata(entry)) for entry in pipe.entries][:2] == [PROBE, markers.UPDATE]
    pipe.send(1)
    pipe.confirm()
    pipe.attach(permits=1000)
    assert updates_in(pipe) == 1
    pipe.run()
    pipe.attach(permits=1000)
    assert updates_in(pipe) == 0


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("is_sent", [False, True])
def test_no_update_of_a_deleted_subscription_follows_later(*, is_sent: bool, others: int) -> None:
    """A new subscription of this name in another cluster would skip what the deleted one acknowledged."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    pipe, consumer = mesh.pipes["ewr", "jfk"], mesh.subscribe("ewr")
    if others:
        mesh.clusters["ewr"].client().subscribe(subscription="other", replicate_subscription_state=True)
    mesh.second()
    mesh.second()
    if not is_sent:
        pipe.reader.leave()
    acknowledge_all(mesh, "ewr", consumer)
    mesh.loop.advance(0.1)
    mesh.clusters["ewr"].settle()
    if is_sent:
        pipe.read()
    for each in (consumer, mesh.subscribe("jfk", permits=0)):
        each.say(commands.unsubscribe(consumer_id=1, request_id=each.request_id()))
    mesh.subscribe("jfk", permits=0)
    pipe.attach(permits=10)
    mesh.carry()
    assert mesh.acknowledged("jfk") == set()


def test_a_write_that_outlives_its_subscription_updates_none_of_its_name() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    consumer, ewr = mesh.subscribe("ewr"), mesh.clusters["ewr"]
    mesh.second()
    mesh.second()
    (position,) = mesh.texts("ewr")
    elsewhere = mesh.subscribe("jfk", permits=0)
    elsewhere.say(commands.unsubscribe(consumer_id=1, request_id=elsewhere.request_id()))
    mesh.subscribe("jfk", permits=0)
    ewr.prompt = False
    consumer.ack(position, request_id=consumer.request_id())
    consumer.say(commands.unsubscribe(consumer_id=1, request_id=consumer.request_id()))
    assert ewr.store.pending, "the acknowledgement is being written"
    mesh.subscribe("ewr", permits=0)
    ewr.prompt = True
    mesh.carry()
    assert mesh.acknowledged("ewr") == set()
    assert mesh.acknowledged("jfk") == set()


def test_resent_lost_entries_are_acknowledged_too() -> None:
    """The last snapshot does not have its new position, and without entries no other one would be due."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("jfk", "a")
    mesh.carry()
    mesh.publish("ewr", "b")
    consumer = mesh.subscribe("ewr")
    for _ in range(4):
        mesh.second()
    _, lost = mesh.texts("jfk")
    mesh.clusters["jfk"].lose_power(lost.ledger_id, lost.entry_id)
    assert mesh.entries("jfk") == 1
    for pipe in mesh.pipes.values():
        pipe.attach(permits=100)
    acknowledge_all(mesh, "ewr", consumer)
    for _ in range(4):
        mesh.second()
    assert mesh.entries("jfk") == 2
    assert mesh.end("jfk").ledger_id > lost.ledger_id
    assert mesh.backlog("jfk") == 0


@pytest.mark.parametrize("end", ["unload", "crash"])
def test_a_restart_need_not_consume_its_backlog_to_the_end(end: str) -> None:
    mesh = Mesh("ewr", "jfk")
    consumer = mesh.subscribe("ewr")
    texts = [f"m{number}" for number in range(40)]
    for text in texts:
        mesh.publish("ewr", text)
        mesh.second()
    ewr = mesh.clusters["ewr"]
    if end == "unload":
        ewr.do(lambda: ewr.topics.unload(TOPIC))
    else:
        consumer.leave()
        ewr.crash()
    assert SNAPSHOTS_PROPERTY in ewr.topic().ledger.properties
    again = mesh.subscribe("ewr")
    for pipe in mesh.pipes.values():
        pipe.attach(permits=1000)
    half = list(mesh.texts("ewr"))[: len(texts) // 2]
    again.ack(*half)
    mesh.loop.advance(0.1)
    mesh.carry()
    done = mesh.acknowledged("jfk")
    assert done == set(texts[: len(done)])
    assert len(texts) // 4 <= len(done) <= len(half), "a snapshot from before the restart lies within"


def test_a_slow_consumer_takes_the_other_cluster_along() -> None:
    """Pitfalls #10054, #25044: all cached snapshots were ahead of it."""
    mesh = Mesh("ewr", "jfk", settings={**MARKERS, "replicatedSubscriptionsSnapshotMaxCachedPerSubscription": 5})
    consumer = mesh.subscribe("ewr")
    for number in range(50):
        mesh.publish("ewr", f"m{number}")
        mesh.second()
    positions = list(mesh.texts("ewr"))
    behind = []
    for count, position in enumerate(positions, start=1):
        consumer.ack(position)
        mesh.loop.advance(0.02)
        mesh.carry(1)
        behind.append(count - len(mesh.acknowledged("jfk")))
    assert max(behind) < 25
    assert behind[-1] == 0


# -- no cost while disabled ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"replicatedSubscriptionSync": "exact"}, {"enableReplicatedSubscriptions": False}, {}],
    ids=["exact", "off", "auto, and no cluster is known that needs them"],
)
def test_unneeded_markers_are_neither_sent_nor_kept(settings: dict[str, Any]) -> None:
    mesh = Mesh("ewr", "jfk", settings=settings)
    mesh.publish("ewr", "a")
    acknowledge_all(mesh, "ewr", mesh.subscribe("ewr"))
    for _ in range(3):
        mesh.second()
    for name in ("ewr", "jfk"):
        topic = mesh.clusters[name].topic()
        assert topic.snapshots is None
        assert [replicator.markers for replicator in topic.replicators.values()] == [None]


def test_a_topic_without_a_replicated_subscription_takes_no_snapshots() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    consumer = mesh.subscribe("ewr", replicate=False)
    mesh.second()
    assert mesh.clusters["ewr"].topic().snapshots is None
    consumer.leave()
    ewr = mesh.clusters["ewr"]
    topic, subscription = ewr.topic(), ewr.subscription()
    for replicated in (True, False):
        ewr.do(partial(topic.set_replicated, subscription, replicated=replicated))
        assert (topic.snapshots is not None) is replicated


def test_a_manual_request_without_snapshots_gets_the_reason() -> None:
    mesh = Mesh("ewr", "jfk", settings={})
    with pytest.raises(RequestError, match="takes no snapshots"):
        mesh.clusters["ewr"].topic().begin_snapshot([])
    mixed = among_others()
    mixed.subscribe("ewr")
    with pytest.raises(RequestError, match="only in mode markers"):
        mixed.clusters["ewr"].topic().begin_snapshot(["jfk"])


def test_the_policy_decides_at_once() -> None:
    mesh = Mesh("ewr", "jfk", settings={})
    mesh.subscribe("ewr")
    ewr = mesh.clusters["ewr"]
    for mode in ("markers", "exact", "auto"):
        namespaces = ewr.resources.namespaces
        changed = Policies.model_validate(
            {"replication_clusters": ["ewr", "jfk"], "replicated_subscription_sync": mode}
        )
        ewr.do(partial(namespaces.update, NAMESPACE, partial(lambda new, _: new, changed)))
        assert (ewr.topic().snapshots is not None) is (mode == "markers")


def test_the_broker_counts_snapshots_of_topics_that_are_not_loaded_any_more() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.publish("ewr", "a")
    mesh.subscribe("ewr")
    mesh.carry()
    mesh.second()
    ewr = mesh.clusters["ewr"]
    snapshots, of_broker = ewr.topic().snapshots, ewr.environment.snapshots
    assert snapshots is not None
    completed, took_s = snapshots.controller.counts.completed, snapshots.controller.counts.took_s
    assert (of_broker.completed, of_broker.took_s) == (completed, took_s)
    assert completed > 0
    ewr.do(lambda: ewr.topics.unload(TOPIC))
    assert ewr.topic().snapshots is not snapshots
    assert (of_broker.completed, of_broker.took_s) == (completed, took_s)


def test_the_time_between_two_snapshots_follows_the_policies() -> None:
    """The topic's policy overrides its namespace's, which overrides the broker's; a change takes effect at once."""
    mesh = Mesh("ewr", "jfk")
    mesh.subscribe("ewr")
    mesh.carry()
    ewr = mesh.clusters["ewr"]
    snapshots = ewr.topic().snapshots
    assert snapshots is not None

    def taken(seconds: int) -> int:
        """Return the number of complete snapshots after ``seconds`` seconds with a message each."""
        before = snapshots.controller.counts.completed
        for number in range(seconds):
            mesh.publish("ewr", str(number))
            mesh.second()
        return snapshots.controller.counts.completed - before

    def namespace(millis: int | None) -> None:
        changed = Policies(
            replication_clusters=["ewr", "jfk"], replicated_subscriptions_snapshot_frequency_millis=millis
        )
        ewr.do(partial(ewr.resources.namespaces.update, NAMESPACE, lambda _: changed))

    def topic(millis: int | None) -> None:
        fields = {"replicatedSubscriptionsSnapshotFrequencyMillis": millis}
        ewr.do(lambda: ewr.resources.topic_policies.change(TOPIC, **fields))

    assert taken(10) == 10
    namespace(5_000)
    assert taken(10) == 2
    topic(2_000)
    assert taken(10) == 5
    namespace(60_000)
    topic(None)
    assert taken(30) == 0
    namespace(None)
    assert taken(10) == 10 + 1, "the one that was a minute away is taken at once"


# -- with Apache Pulsar ------------------------------------------------------------------------------------------------


def among_others(name: str = "ewr", **settings: Any) -> Mesh:  # noqa: ANN401 - settings of every type
    """Return two clusters of Magnetar and one without exact progress, of which only ``name`` is tested."""
    mesh = Mesh("ewr", "jfk", "apache", settings=settings)
    links = mesh.clusters[name].environment.links
    links._unable.add("apache")
    return mesh


def test_all_clusters_take_part_and_only_those_are_told_that_need_it() -> None:
    mesh = among_others()
    mesh.publish("ewr", "a")
    acknowledge_all(mesh, "ewr", mesh.subscribe("ewr"))
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("apache") == {"a"}
    assert mesh.acknowledged("jfk") == set(), "exact progress brings it there"


@pytest.mark.parametrize(
    "policy", [{"replicated_subscription_sync": "exact"}, {"replicated_subscriptions_allowed": False}]
)
def test_a_cluster_without_markers_answers_requests_and_does_nothing_else(policy: dict[str, Any]) -> None:
    """Its answer is part of every snapshot of the others, so Apache Pulsar would never get an update without it."""
    mesh = among_others()
    jfk = mesh.clusters["jfk"]
    jfk.environment.links._unable.add("apache")
    changed = Policies.model_validate({"replication_clusters": ["ewr", "jfk", "apache"], **policy})
    jfk.do(partial(jfk.resources.namespaces.update, NAMESPACE, lambda _: changed))
    mesh.publish("ewr", "a")
    mesh.subscribe("jfk", permits=0)
    acknowledge_all(mesh, "ewr", mesh.subscribe("ewr"))
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("apache") == {"a"}
    asked = jfk.topic().snapshots
    assert asked is not None
    assert (asked._timer, asked.stats().completed, asked.stats().pending) == (None, 0, 0)
    with pytest.raises(RequestError, match="takes no snapshots"):
        jfk.topic().begin_snapshot([])
    update = markers.subscription_update("worker", {"jfk": mesh.end("jfk")})
    writer = jfk.client()
    writer.produce(name="pulsar.repl.apache-->jfk", epoch=99)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=from_apache(markers.UPDATE, update, 1), marker=True))
    assert len(writer.receipts()) == 1
    assert mesh.acknowledged("jfk") == set()


@pytest.fixture
def without_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clusters announce no support for claims, like Apache Pulsar."""
    built = markers.snapshot_response

    def response(*given: Any, takes_claims: bool) -> bytes:  # noqa: ANN401 - as the function that it replaces
        del takes_claims
        return built(*given)

    monkeypatch.setattr(markers, "snapshot_response", response)


@pytest.mark.usefixtures("without_claims")
def test_a_cluster_without_claims_gets_updates_after_the_first_acknowledgement() -> None:
    """Apache Pulsar acknowledges everything up to an update's position, including entries before the start here."""
    mesh = Mesh("ewr", "jfk")
    mesh.publish("jfk", "a")
    mesh.carry()
    consumer = at_latest(mesh, "ewr")
    for _ in range(3):
        mesh.second()
    assert "worker" not in mesh.clusters["jfk"].topic().subscriptions
    mesh.publish("ewr", "b")
    mesh.clusters["ewr"].settle()
    acknowledge_all(mesh, "ewr", consumer)
    for _ in range(3):
        mesh.second()
    assert "worker" in mesh.clusters["jfk"].topic().subscriptions


@pytest.mark.usefixtures("without_claims")
def test_the_first_acknowledgement_may_be_that_of_a_returned_entry() -> None:
    """The cluster lost its data, got its entries back, and has published nothing since."""
    mesh = among_others("jfk")
    jfk = mesh.clusters["jfk"]
    jfk.store.ids.begin_at(1_000)
    jfk.store.life = Life("second", 1_000)
    writer = mesh.pipes["ewr", "jfk"].writer
    entry = stamp(sim_cluster.entry("returned"), Origin("jfk", Position(5, 0)))
    writer.say(commands.send(producer_id=1, sequence_id=1_000, entry=entry))
    assert len(writer.receipts()) == 1
    consumer = mesh.subscribe("jfk")
    for _ in range(3):
        mesh.second()
    assert "worker" not in mesh.clusters["apache"].topic().subscriptions
    acknowledge_all(mesh, "jfk", consumer)
    for _ in range(3):
        mesh.second()
    assert "worker" in mesh.clusters["apache"].topic().subscriptions
    assert mesh.problems() == []


def apache_writer(mesh: Mesh) -> Client:
    writer = mesh.clusters["ewr"].client()
    writer.produce(name="pulsar.repl.apache-->ewr", epoch=99)
    return writer


def test_a_marker_that_apache_pulsars_replicator_sends_again_is_answered_once() -> None:
    """A second answer to a request of the first round would count as one of the second round."""
    mesh = among_others()
    writer = apache_writer(mesh)
    request = from_apache(markers.SNAPSHOT_REQUEST, markers.snapshot_request("s", "apache"), 1)
    later = from_apache(markers.SNAPSHOT_REQUEST, markers.snapshot_request("s", "apache"), 2)
    for entry, expected in ((request, 1), (request, 1), (later, 2), (request, 2)):
        writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
        assert len(writer.receipts()) == 1
        mesh.pipes["ewr", "apache"].read()
        assert len(mesh.pipes["ewr", "apache"].carried) == expected
    assert mesh.entries("ewr") == 0


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (markers.UPDATE, b"\xff"),
        (markers.UPDATE, markers.subscription_update("worker", {"jfk": EARLIEST})),
        (markers.SNAPSHOT_REQUEST, markers.snapshot_request("s", "nobody")),
        (markers.SNAPSHOT_RESPONSE, markers.snapshot_response("late", "apache", EARLIEST)),
        (markers.SNAPSHOT, b""),
        (22, b"a transaction's"),
    ],
    ids=["unreadable", "not for here", "#25266: no peer", "#26119: late", "a snapshot", "a transaction's"],
)
def test_a_marker_that_means_nothing_here_is_receipted_and_leaves_nothing(kind: int, payload: bytes) -> None:
    mesh = among_others()
    writer = apache_writer(mesh)
    entry = from_apache(kind, payload, 1)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
    assert len(writer.receipts()) == 1
    topic = mesh.clusters["ewr"].topic()
    assert (topic.subscriptions, topic.ledger.entries) == ({}, 0)
    assert mesh.problems() == []


def test_a_topic_that_was_closed_takes_no_update_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic may have been deleted and created again meanwhile, with subscriptions of its own."""
    mesh = among_others()
    mesh.publish("ewr", "a")
    writer = apache_writer(mesh)
    topic = mesh.clusters["ewr"].topic()
    entry = from_apache(markers.UPDATE, markers.subscription_update("worker", {"ewr": mesh.end("ewr")}), 1)
    barrier = topic.log.behind_appends

    def stop() -> None:
        topic.lifecycle.apply(Event.STOP)

    def closed_meanwhile(done: Callable[[StorageError | None], None]) -> None:
        barrier(lambda _error: stop())
        barrier(done)

    monkeypatch.setattr(topic.log, "behind_appends", closed_meanwhile)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
    assert writer.receipts() == []
    assert topic.subscriptions == {}


def test_no_update_creates_a_subscription_while_a_crash_would_bring_trimmed_entries_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The subscription would start after them."""
    mesh = among_others()
    mesh.publish("ewr", "a")
    writer = apache_writer(mesh)
    cluster = mesh.clusters["ewr"]
    topic, metadata = cluster.topic(), cluster.metadata
    update = markers.subscription_update("worker", {"ewr": mesh.end("ewr")}, ({}, {}))
    entry = from_apache(markers.UPDATE, update, 1)
    topic.ledger._listed.drop([cluster.store.create()])
    with monkeypatch.context() as disk_full:
        error = DiskFullError("metadata store: database or disk is full")
        disk_full.setattr(metadata, "_submit", lambda _transaction: metadata._failed(error))
        writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
        cluster.settle()
        assert topic.ledger.is_trim_unstored
        assert topic.subscriptions == {}
    writer.say(commands.send(producer_id=1, sequence_id=1, entry=from_apache(markers.UPDATE, update, 2), marker=True))
    cluster.settle()
    assert not topic.ledger.is_trim_unstored
    assert list(topic.subscriptions) == ["worker"]


@pytest.mark.parametrize("claims", [None, ({}, {})])
@pytest.mark.parametrize("name", ["", "pulsar.dedup", "pulsar.repl.jfk", "pulsar.repl.lga"])
def test_no_update_creates_a_subscription_with_a_reserved_name(name: str, claims: tuple[Any, Any] | None) -> None:
    mesh = among_others()
    mesh.publish("ewr", "a")
    writer = apache_writer(mesh)
    entry = from_apache(markers.UPDATE, markers.subscription_update(name, {"ewr": mesh.end("ewr")}, claims), 1)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
    assert len(writer.receipts()) == 1
    assert mesh.clusters["ewr"].topic().subscriptions == {}
    assert mesh.problems() == []


def test_an_update_beyond_the_end_of_the_log_acknowledges_nothing() -> None:
    mesh = among_others()
    mesh.publish("ewr", "a")
    mesh.subscribe("ewr")
    beyond = mesh.end("ewr")._replace(entry_id=7)
    writer = apache_writer(mesh)
    entry = from_apache(markers.UPDATE, markers.subscription_update("worker", {"ewr": beyond}), 1)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
    assert mesh.acknowledged("ewr") == set()


def test_an_update_acknowledges_no_place_whose_entry_a_power_loss_took() -> None:
    mesh = among_others()
    mesh.publish("ewr", "a", "b")
    lost = mesh.end("ewr")._replace(entry_id=7)
    cluster = mesh.clusters["ewr"]
    cluster.crash()
    mesh.publish("ewr", "c")
    mesh.subscribe("ewr", permits=0)
    update = markers.subscription_update("worker", {"ewr": lost}, ({}, {"ewr": [(EARLIEST, lost)]}))
    writer = apache_writer(mesh)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=from_apache(markers.UPDATE, update, 1), marker=True))
    subscription = cluster.subscription()
    assert subscription.backlog == 1
    assert subscription.cursor.state.mark_delete_position == lost._replace(entry_id=1)


def test_acknowledgements_of_an_update_are_sent_to_exact_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = among_others()
    mesh.publish("ewr", "a", "b")
    mesh.subscribe("ewr")
    news: list[SubscriptionProgress] = []
    monkeypatch.setattr(mesh.clusters["ewr"].topic().progress, "publish", lambda state, *_: news.append(state))
    first = next(iter(mesh.texts("ewr")))
    writer = apache_writer(mesh)
    entry = from_apache(markers.UPDATE, markers.subscription_update("worker", {"ewr": first}), 1)
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=entry, marker=True))
    assert mesh.acknowledged("ewr") == {"a"}
    (state,) = news
    assert [(claim.cluster, claim.upper) for claim in state.covered()] == [("ewr", first)]


def test_a_topic_that_was_closed_takes_no_more_snapshots() -> None:
    mesh = Mesh("ewr", "jfk")
    mesh.subscribe("ewr")
    mesh.publish("ewr", "a")
    mesh.carry()
    cluster = mesh.clusters["ewr"]
    snapshots = cluster.topic().snapshots
    assert snapshots is not None
    assert snapshots._timer is not None
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    snapshots.handed_over("jfk")
    snapshots.moved()
    assert snapshots._timer is None, "its links and its log are closed after it"
