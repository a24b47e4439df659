"""A cluster that keeps the entries of one that has left carries them to others, each once (ADR 40)."""

from __future__ import annotations

import pytest

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.fences.report import fenced_topic_steps
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.loop.slices import at_once
from magnetar.broker.replication.outbound.custody import RETRY_S
from magnetar.broker.replication.protection import subscription_protection
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import TOPIC, entry
from magnetar.sim.pipe import Pipe, read_all
from magnetar.wire import commands
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.links import CUSTODY_IN_RUNS, CUSTODY_ONE_BY_ONE
from magnetar.wire.message_id import LinkRun, OriginPosition
from tests.unit.broker.network import ClusterNetwork, Worker
from tests.unit.broker.replication.test_copies import begin_life, rebuild

NAMES = ("ewr", "jfk", "lga")


def leave(network: ClusterNetwork, custodian: str = "jfk", leaver: str = "ewr") -> None:
    """Let a cluster leave the namespace, and give its entries into the custody of another one."""
    rest = [name for name in NAMES if name != leaver]
    for name in rest:
        others = [other for other in rest if other != name]
        network[name].replicate_to(*others, custody={leaver: custodian})
    network[leaver].replicate_to()
    network.settle()


def join(network: ClusterNetwork) -> None:
    """Let all clusters replicate to each other again."""
    for name in NAMES:
        network[name].replicate_to(*(other for other in NAMES if other != name))
    network.settle()


def carry(network: ClusterNetwork) -> None:
    """Carry all entries."""
    network.carry()
    network.progress()


def scenario() -> ClusterNetwork:
    """ewr published "a" to "c", and jfk has them; lga has none; then ewr left."""
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a", "b", "c")
    network.publish("jfk", "own")
    network.carry("ewr", "jfk")
    leave(network)
    return network


def partly_carried() -> ClusterNetwork:
    """ewr published "a" to "d", and jfk has them; lga has the first two; then ewr left."""
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a", "b")
    network.carry()
    network.publish("ewr", "c", "d")
    network.carry("ewr", "jfk")
    leave(network)
    return network


def backlog(network: ClusterNetwork, source: str = "jfk", target: str = "lga") -> int | None:
    found: int | None = network[source].topic().replicators[target].backlog
    return found


def test_the_custodian_carries_the_entries_of_a_cluster_that_has_left() -> None:
    network = scenario()
    carry(network)
    assert sorted(read_all(network["lga"])) == ["a", "b", "c", "own"]
    carry(network)
    assert len(read_all(network["lga"])) == 4


def test_a_target_that_has_all_entries_gets_none_again() -> None:
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a", "b", "c")
    network.carry()
    leave(network)
    network.publish("jfk", "own")
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    assert len(pipe.carried) == 1, "the probe, and nothing before its confirmation"
    pipe.run()
    assert pipe.gaps == 0
    assert read_all(network["lga"]) == ["a", "b", "c", "own"]


def test_a_target_that_has_some_gets_the_others() -> None:
    network = partly_carried()
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    pipe.send(1)
    pipe.confirm()
    assert pipe.gaps == 1
    assert len(pipe.carried) == 2
    pipe.run()
    assert read_all(network["lga"]) == ["a", "b", "c", "d"]


def test_only_the_custodian_carries_them() -> None:
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a")
    network.carry("ewr", "jfk")
    leave(network, custodian="lga")
    carry(network)
    assert read_all(network["lga"]) == []
    assert backlog(network) == 0


def test_own_entries_are_carried_while_the_target_does_not_know_of_the_custody() -> None:
    network = scenario()
    network["lga"].replicate_to("jfk")
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    pipe.send(1)
    assert "custody" in pipe.writer.take("SEND_ERROR")[0].message
    assert read_all(network["lga"]) == []
    assert backlog(network) is None


def test_entries_in_custody_follow_some_time_after_a_refusal() -> None:
    network = scenario()
    pipe = network.pipes["jfk", "lga"]
    pipe.parked = "the target does not know of the custody"
    pipe.attach(permits=1000)
    pipe.run()
    assert read_all(network["lga"]) == ["own"]
    assert backlog(network) is None
    pipe.parked = ""
    network.progress(RETRY_S + 1)
    assert network["jfk"].topic().replicators["lga"].consumer is None
    carry(network)
    assert sorted(read_all(network["lga"])) == ["a", "b", "c", "own"]


def test_the_backlog_counts_them_when_the_content_of_the_target_is_known() -> None:
    network = scenario()
    assert backlog(network) is None
    fenced = at_once(fenced_topic_steps(network["jfk"].topic(), digests=False))
    assert fenced.links["lga"].backlog is None, "a migration must wait for them"
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    pipe.send(1)
    pipe.confirm()
    assert network["jfk"].topic().replicators["lga"].foreign.custody.backlog == 3
    pipe.send(1)
    pipe.confirm()
    network.settle()
    pipe.confirm()
    assert network["jfk"].topic().replicators["lga"].foreign.custody.backlog == 2
    carry(network)
    assert backlog(network) == 0
    stats = topic_stats(network["jfk"].topic(), StatsOptions()).replication["lga"]
    assert (stats.replication_backlog, stats.msg_out_count) == (0, 6), "two were sent to both attachments"


def test_own_entries_wait_until_those_in_custody_have_receipts() -> None:
    network = scenario()
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    pipe.send(1)
    pipe.confirm()
    assert len(pipe.carried) == 3
    pipe.send(2)
    pipe.confirm()
    assert len(pipe.carried) == 1
    pipe.send(1)
    pipe.confirm()
    assert [bytes(payload_of(each)) for each in pipe.entries] == [b"own"]


def test_entries_that_are_lost_in_transit_are_carried_again() -> None:
    network = scenario()
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    pipe.send(1)
    pipe.confirm()
    del pipe.carried[1:]
    carry(network)
    assert sorted(read_all(network["lga"])) == ["a", "b", "c", "own"]


def test_it_goes_on_after_a_restart_of_both_sides() -> None:
    network = scenario()
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    pipe.send(1)
    pipe.confirm()
    pipe.send(2)
    pipe.confirm()
    network.settle()
    network["lga"].crash()
    network["jfk"].crash()
    network.progress(6)
    carry(network)
    assert sorted(read_all(network["lga"])) == ["a", "b", "c", "own"]


def test_entries_for_chosen_clusters_reach_only_these() -> None:
    network = ClusterNetwork(*NAMES)
    client = network["ewr"].client()
    client.produce()
    for number, (text, clusters) in enumerate({"a": [], "b": ["jfk"], "c": ["jfk", "lga"], "d": ["jfk"]}.items()):
        client.say(commands.send(producer_id=1, sequence_id=number, entry=entry(text, replicate_to=clusters)))
    network.carry("ewr", "jfk")
    leave(network)
    carry(network)
    assert read_all(network["jfk"]) == ["a", "b", "c", "d"]
    assert read_all(network["lga"]) == ["a", "c"]
    assert backlog(network) == 0


def test_trimmed_entries_are_left_out() -> None:
    network = ClusterNetwork(*NAMES, ledger_config=ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0))
    for text in ("a", "b", "c", "d"):
        network.publish("ewr", text)
        network.carry("ewr", "jfk")
    network.carry("jfk")  # its links have nothing to carry, and hold nothing back afterwards
    network.progress()
    network["jfk"].trim()
    network.settle()
    assert read_all(network["jfk"]) == ["d"]
    leave(network)
    carry(network)
    assert read_all(network["lga"]) == ["d"]


def test_a_cluster_that_returns_carries_its_own_entries() -> None:
    network = scenario()
    carry(network)
    network.publish("ewr", "e")
    join(network)
    carry(network)
    assert sorted(read_all(network["lga"])) == ["a", "b", "c", "e", "own"]
    assert sorted(read_all(network["ewr"])) == ["a", "b", "c", "e", "own"]


def test_a_cluster_that_was_rebuilt_before_it_left_returns() -> None:
    network = ClusterNetwork(*NAMES)
    begin_life(network, "ewr", 100)
    network.publish("ewr", "a")
    carry(network)
    network.cut("ewr", "lga")
    rebuild(network, "ewr")
    network.cut("ewr", "lga")
    network.publish("ewr", "b")
    network.carry("ewr", "jfk")
    leave(network)
    network.heal("ewr", "lga")
    for _ in range(2):
        carry(network)
    assert read_all(network["lga"]) == ["a", "b"], "the first ones of both lives"
    join(network)
    network.publish("ewr", "c")
    for _ in range(2):
        carry(network)
    assert read_all(network["lga"]) == ["a", "b", "c"]


def test_a_change_of_the_policy_ends_an_attachment_that_carries_own_entries() -> None:
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a")
    network.carry("ewr", "jfk")
    pipe = network.pipes["jfk", "lga"]
    pipe.attach()
    leave(network)
    assert network["jfk"].topic().replicators["lga"].consumer is None
    carry(network)
    assert read_all(network["lga"]) == ["a"]


def test_entries_of_a_member_are_not_in_custody() -> None:
    network = scenario()
    for name in ("jfk", "lga"):
        others = [other for other in NAMES if other != name]
        network[name].replicate_to(*others, custody={"ewr": "jfk"})
    network.settle()
    assert network["jfk"].topic().replicators["lga"].foreign.custody.origins == ()


@pytest.mark.parametrize("is_known", [False, True])
def test_a_subscription_is_at_risk_while_entries_in_custody_are_missing(is_known: bool) -> None:
    network = scenario()
    worker = Worker(network, "jfk", initialPosition=1)
    network.progress()
    pipe = network.pipes["jfk", "lga"]
    pipe.attach(permits=1000)
    if is_known:
        pipe.send(1)
        pipe.confirm()
    topic = network["jfk"].topic()
    found = network["jfk"].do(lambda: subscription_protection(topic))["worker"]
    reason = "3 messages of clusters" if is_known else "which messages of clusters"
    assert any(reason in each for each in found.reasons)
    assert worker.read()


# --- a cluster that has deleted its topic before it returns ----------------------------------------------------------


def gone(network: ClusterNetwork) -> None:
    """Let ewr leave and delete its topic, as the end of a migration does, with its entries in the custody of jfk."""
    leave(network)
    network["ewr"].delete(TOPIC)
    network.settle()
    assert not network["ewr"].topics.exists(TOPIC)


def come_back(network: ClusterNetwork, custodian: str = "jfk") -> None:
    """Let ewr return while the custody goes on."""
    for name in NAMES:
        network[name].replicate_to(*(other for other in NAMES if other != name), custody={"ewr": custodian})
    network["ewr"].topic()
    network.settle()


def moved() -> tuple[ClusterNetwork, Worker]:
    """ewr published "a" to "d", of which a consumer acknowledged "b"; jfk published "own"; then ewr left."""
    network = ClusterNetwork(*NAMES)
    worker = Worker(network, "ewr")
    network.publish("ewr", "a", "b", "c", "d")
    network.publish("jfk", "own")
    carry(network)
    worker.read()
    worker.ack("b")
    network.progress()
    worker.leave()
    gone(network)
    return network, worker


def test_it_gets_its_own_entries_from_the_custodian_once() -> None:
    network, _ = moved()
    come_back(network)
    assert backlog(network, "jfk", "ewr") == 5
    for _ in range(3):
        carry(network)
    assert sorted(read_all(network["ewr"])) == ["a", "b", "c", "d", "own"]
    assert backlog(network, "jfk", "ewr") == 0
    there = Worker(network, "ewr")
    assert sorted(there.read()) == ["a", "c", "d", "own"]
    network.publish("ewr", "new")
    for _ in range(3):
        carry(network)
    for name in NAMES:
        assert sorted(read_all(network[name])) == ["a", "b", "c", "d", "new", "own"], name


def test_other_clusters_do_not_send_them_back() -> None:
    network, _ = moved()
    come_back(network, custodian="lga")
    for _ in range(3):
        network.carry("jfk", "ewr")
        network.progress()
    assert read_all(network["ewr"]) == ["own"]
    carry(network)
    carry(network)
    assert sorted(read_all(network["ewr"])) == ["a", "b", "c", "d", "own"]


def test_a_cluster_that_kept_its_topic_ignores_them() -> None:
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a", "b")
    carry(network)
    leave(network)
    come_back(network)
    for _ in range(3):
        carry(network)
    network.publish("ewr", "c")
    for _ in range(3):
        carry(network)
    for name in NAMES:
        assert read_all(network[name]) == ["a", "b", "c"], name
    assert backlog(network, "jfk", "ewr") == 0


def test_the_return_goes_on_after_restarts() -> None:
    network, _ = moved()
    come_back(network)
    pipe = network.pipes["jfk", "ewr"]
    pipe.attach(permits=2)
    pipe.send(1)
    pipe.confirm()
    network.settle()
    for name in ("ewr", "jfk"):
        network[name].crash()
    network.progress(6)
    for _ in range(3):
        carry(network)
    assert sorted(read_all(network["ewr"])) == ["a", "b", "c", "d", "own"]
    assert sorted(Worker(network, "ewr").read()) == ["a", "c", "d", "own"]


# -- runs -----------------------------------------------------------------------------------------------------------


def in_runs(network: ClusterNetwork, source: str = "jfk", target: str = "lga") -> Pipe:
    """Return the pipe of a link that carries entries in custody in runs."""
    pipe = network.pipes[source, target]
    pipe.custody = CUSTODY_IN_RUNS
    return pipe


def beyond_probe(network: ClusterNetwork) -> Pipe:
    """Return the pipe when the target has answered the probe, and what it lacks was read."""
    pipe = in_runs(network)
    pipe.attach(permits=1000)
    pipe.send(1)
    pipe.confirm()
    return pipe


def test_a_run_of_entries_in_custody_has_no_stamps_and_names_its_origin() -> None:
    network = scenario()
    pipe = beyond_probe(network)
    ((last, run),) = pipe.carried
    assert isinstance(run, LinkRun)
    first = network["ewr"].topic().ledger.first_position
    assert run.origin == OriginPosition("ewr", first)
    assert run.entries == entry("a") + entry("b") + entry("c")
    assert (run.link.previous, len(run.sizes)) == (EARLIEST, 3)
    assert last == run.first._replace(entry_id=run.first.entry_id + 2)
    pipe.run()
    assert read_all(network["lga"]) == ["a", "b", "c", "own"]
    index = network["lga"].topic().log.index
    assert index.last_position("ewr") == first._replace(entry_id=first.entry_id + 2)
    assert backlog(network) == 0


def test_runs_continue_behind_what_the_target_has() -> None:
    network = partly_carried()
    in_runs(network).attach(permits=1)
    in_runs(network).run()
    assert read_all(network["lga"]) == ["a", "b", "c", "d"]
    assert backlog(network) == 0


def test_a_run_ends_at_an_entry_that_is_for_others() -> None:
    network = ClusterNetwork(*NAMES)
    publisher = network["ewr"].client()
    publisher.produce()
    for number, text in enumerate(("a", "b", "for jfk", "c")):
        clusters = {"replicate_to": ["jfk"]} if text == "for jfk" else {}
        one = entry(text, sequence_id=number, **clusters)
        publisher.say(commands.send(producer_id=1, sequence_id=number, entry=one))
    network.carry("ewr", "jfk")
    leave(network)
    pipe = beyond_probe(network)
    assert [len(run.sizes) for _, run in pipe.carried if isinstance(run, LinkRun)] == [2, 1]
    pipe.run()
    assert read_all(network["lga"]) == ["a", "b", "c"]


@pytest.mark.parametrize("custody", [CUSTODY_ONE_BY_ONE, CUSTODY_IN_RUNS])
def test_entries_of_two_custodians_are_carried_on_in_runs(custody: str) -> None:
    """jfk has got the entries of ewr with two stamps, or in a run with one."""
    network = ClusterNetwork(*NAMES)
    network.publish("ewr", "a", "b", "c")
    network.carry("ewr", "lga")
    leave(network, custodian="lga")
    network.pipes["lga", "jfk"].custody = custody
    network.carry("lga", "jfk")
    assert read_all(network["jfk"]) == ["a", "b", "c"]
    rebuild(network, "lga")
    leave(network, custodian="jfk")
    beyond_probe(network).run()
    assert read_all(network["lga"]) == ["a", "b", "c"]


def test_runs_are_counted_by_deduplication() -> None:
    """The target judges each entry then, and not the run as a whole."""
    network = ClusterNetwork(*NAMES, settings={"brokerDeduplicationEnabled": True})
    network.publish("ewr", "a", "b", "c")
    network.carry("ewr", "jfk")
    leave(network)
    beyond_probe(network).run()
    assert read_all(network["lga"]) == ["a", "b", "c"]
    assert backlog(network) == 0


@pytest.mark.parametrize("origin", ["mia", "lga"])
def test_a_run_of_a_cluster_that_is_not_in_the_custody_of_the_source_is_refused(origin: str) -> None:
    network = scenario()
    pipe = beyond_probe(network)
    ((last, run),) = pipe.carried
    assert isinstance(run, LinkRun)
    assert run.origin is not None
    pipe.carried[:] = [(last, run._replace(origin=run.origin._replace(cluster=origin)))]
    pipe.send(1)
    (error,) = pipe.writer.take("SEND_ERROR")
    assert "custody of this source" in error.message
    assert read_all(network["lga"]) == []
