"""A seek in one cluster and its effects in others: no message is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import entry
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.network import ClusterNetwork, Worker
from tests.unit.broker.replication.test_changing_clusters import configure

if TYPE_CHECKING:
    from magnetar.base.position import Position

SMALL_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0)


def seek(network: ClusterNetwork, name: str, mark_delete: Position | None = None) -> None:
    """Seek to just after ``mark_delete``, by default to the end."""
    subscription = network[name].subscription()
    target = subscription.topic.ledger.last_confirmed_entry if mark_delete is None else mark_delete
    network.loop.start(subscription.reset(target))
    network.settle()


def seek_to_earliest(network: ClusterNetwork, name: str) -> None:
    seek(network, name, network[name].topic().log.before_first())


def consumed(*names: str) -> ClusterNetwork:
    """Return clusters with two messages of the first cluster, acknowledged there."""
    network = ClusterNetwork(*names)
    network.publish(names[0], "a", "b")
    worker = Worker(network, names[0])
    worker.ack(*worker.read())
    network.carry()
    network.progress()
    worker.leave()
    return network


def test_a_seek_reaches_the_others_also_after_a_partition() -> None:
    network = consumed("ewr", "jfk")
    network.cut("ewr", "jfk")
    seek_to_earliest(network, "jfk")
    network.heal("ewr", "jfk")
    assert Worker(network, "ewr").read() == ["a", "b"]


def test_of_two_seeks_at_once_one_holds_everywhere() -> None:
    network = consumed("ewr", "jfk")
    network.cut("ewr", "jfk")
    seek_to_earliest(network, "ewr")
    seek(network, "jfk", network["jfk"].topic().ledger.first_position)
    network.heal("ewr", "jfk")
    for name in ("ewr", "jfk"):
        worker = Worker(network, name)
        assert worker.read() == ["b"], name
        worker.leave()


def test_consumers_in_other_clusters_subscribe_again_so_that_late_acknowledgements_do_not_count() -> None:
    network = consumed("ewr", "jfk")
    network.publish("ewr", "c")
    worker = Worker(network, "ewr")
    assert worker.read() == ["c"]
    network.progress()
    seek_to_earliest(network, "jfk")
    network.progress()
    assert worker.client.take("CLOSE_CONSUMER")
    worker.ack("c")
    again = Worker(network, "ewr")
    assert again.read() == ["a", "b", "c"]


def test_going_to_the_end_brings_nothing_back_of_what_has_not_arrived() -> None:
    network = consumed("ewr", "jfk", "sfo")
    network.publish("sfo", "only in ewr and sfo")
    network.carry("sfo", "ewr")
    worker = Worker(network, "ewr")
    worker.ack(*worker.read())
    network.publish("ewr", "late")
    worker.ack(*worker.read())
    network.progress()
    seek(network, "jfk")
    network.progress()
    network.carry()
    for name in network.clusters:
        other = Worker(network, name)
        assert other.read() == [], name
        other.leave()


def test_a_cluster_that_learns_of_a_seek_from_a_third_one_keeps_what_the_seek_did_not_concern() -> None:
    network = ClusterNetwork("ewr", "lga", settings={"replicationStartAt": "latest"})
    worker = Worker(network, "ewr")
    network.publish("ewr", "a", "b")
    network.carry()
    worker.ack(*worker.read())
    network.progress()
    network.add("jfk", targets=["ewr", "lga"])
    configure(network, "ewr", "jfk", "lga")
    network.progress(6)
    network.cut("jfk", "lga")
    seek_to_earliest(network, "jfk")  # jfk has no messages
    network.progress()
    worker = Worker(network, "ewr")
    network.publish("ewr", "c")
    worker.ack(*worker.read())
    network.progress()
    progress = network["lga"].subscription().progress
    assert progress is not None
    assert progress.state.epoch.cluster == "jfk"
    assert Worker(network, "lga").read() == []


def test_a_cluster_that_learns_of_an_earlier_start_from_a_third_one_learns_what_was_acknowledged_after_it() -> None:
    network = ClusterNetwork("ewr", "jfk", "lga")
    network.publish("ewr", "a", "b")
    network.carry()
    network.cut("jfk", "lga")
    network.cut("ewr", "jfk")
    worker = Worker(network, "ewr", initialPosition=pb.CommandSubscribe.Latest)
    network.progress()
    there = Worker(network, "jfk")
    there.ack(*there.read())
    network.heal("ewr", "jfk")
    worker.leave()
    worker = Worker(network, "ewr")
    network.publish("ewr", "c")
    assert worker.read() == ["c"]
    worker.ack("c")
    network.progress()
    progress = network["lga"].subscription().progress
    assert progress is not None
    assert not progress.state.starts()
    assert Worker(network, "lga").read() == []


def test_a_seek_leaves_messages_between_those_of_its_log_as_they_are() -> None:
    """They were not meant for the cluster of the seek, so nobody there has asked for them again."""
    network = ClusterNetwork("ewr", "jfk", "lga")
    client = network["ewr"].client()
    client.produce()
    chosen = {"not to jfk 1": ["lga"], "not to jfk 2": ["lga"]}
    texts = ["a", "not to jfk 1", "b", "not to jfk 2", "c"]
    entries = [entry(text, replicate_to=chosen.get(text, [])) for text in texts]
    client.say(*(commands.send(producer_id=1, sequence_id=at, entry=each) for at, each in enumerate(entries)))
    network.carry()
    worker = Worker(network, "ewr")
    assert worker.read() == texts
    worker.ack(*(text for text in texts if text != "not to jfk 2"))
    worker.leave()
    network.progress()
    seek(network, "jfk", network["jfk"].topic().ledger.first_position)
    network.progress()
    for name in ("ewr", "lga"):
        worker = Worker(network, name)
        assert worker.read() == ["b", "not to jfk 2", "c"], name
        worker.leave()


def test_a_seek_to_before_the_start_skips_nothing_that_a_subscription_made_elsewhere_has_to_read() -> None:
    network = ClusterNetwork("ewr", "jfk", "lga")
    client = network["ewr"].client()
    client.produce()
    entries = [entry("a"), entry("not to jfk", replicate_to=["lga"]), entry("b")]
    client.say(*(commands.send(producer_id=1, sequence_id=at, entry=each) for at, each in enumerate(entries)))
    network.carry()
    network.cut("jfk", "lga")
    network.cut("ewr", "jfk")
    Worker(network, "lga").leave()
    Worker(network, "jfk", initialPosition=pb.CommandSubscribe.Latest).leave()
    seek_to_earliest(network, "jfk")
    network.heal("jfk", "lga")
    network.heal("ewr", "jfk")
    assert Worker(network, "lga").read() == ["a", "not to jfk", "b"]


def test_going_to_the_end_where_a_link_began_in_the_middle_leaves_the_rest_to_those_who_have_it() -> None:
    network = ClusterNetwork("ewr", "jfk", "sfo", ledger_config=SMALL_LEDGERS)
    for text in ("a", "b"):
        network.publish("ewr", text)
    network.carry("ewr", "sfo")
    trim(network, "ewr", also_before="jfk")
    network.publish("ewr", "c")
    network.carry()
    Worker(network, "sfo").leave()
    network.progress()
    seek(network, "jfk")
    network.progress()
    assert Worker(network, "sfo").read() == ["a"], "b was the newest in ewr, and stayed, so jfk has it"


def test_going_to_the_earliest_entry_where_retention_is_shorter_passes_nobody_over() -> None:
    network = ClusterNetwork("ewr", "jfk", ledger_config=SMALL_LEDGERS)
    for text in ("a", "b", "c"):
        network.publish("ewr", text)
    network.carry()
    trim(network, "ewr")
    network.cut("ewr", "jfk")
    Worker(network, "jfk").leave()
    Worker(network, "ewr").leave()
    network.heal("ewr", "jfk")
    seek_to_earliest(network, "ewr")
    network.progress()
    assert Worker(network, "jfk").read() == ["a", "b", "c"]
    network["jfk"].clients[-1].leave()
    seek(network, "ewr")
    network.progress()
    assert Worker(network, "jfk").read() == ["a", "b"]


def trim(network: ClusterNetwork, name: str, also_before: str | None = None) -> None:
    """Delete all ledgers of ``name`` but the newest, even before ``also_before`` has got their entries."""
    topic = network[name].topic()
    if also_before is not None:
        cursor = topic.replicators[also_before].cursor
        network[name].do(lambda: cursor.acknowledge_cumulative(topic.ledger.last_confirmed_entry))
    network[name].trim()
    assert not topic.ledger.contains(topic.log.before_first())
