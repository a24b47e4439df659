"""Links between clusters: every entry once, in order, despite faults."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import TOPIC, Client, Cluster, entry
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.links import LEASE_METADATA, OLDER_PIPELINE, PIPELINE_METADATA
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb


def linked(**options: ManagedLedgerConfig) -> tuple[Cluster, Client, Cluster, Pipe]:
    loop = HandLoop()
    source = Cluster("ewr", targets=["jfk"], loop=loop, **options)  # type: ignore[arg-type]
    target = Cluster("jfk", targets=["ewr"], loop=loop)
    publisher = source.client()
    publisher.produce()
    return source, publisher, target, Pipe(source, target)


def backlog(source: Cluster) -> int | None:
    return source.topic().replicators["jfk"].lag.backlog


def test_everything_arrives_once_and_in_order() -> None:
    source, publisher, target, pipe = linked()
    pipe.attach()
    publisher.send("a", "b", "c")
    pipe.read()
    pipe.run()
    assert read_all(target) == ["a", "b", "c"]
    assert backlog(source) == 0


def test_single_acknowledgements_of_one_read_confirm_all_up_to_the_last() -> None:
    source, publisher, _target, pipe = linked()
    pipe.attach()
    publisher.send("a", "b", "c")
    pipe.read()
    positions = [position for position, _ in pipe.carried]
    pipe.reader.say(*(commands.ack(consumer_id=1, message_ids=[message_id(position)]) for position in positions[:2]))
    assert backlog(source) == 1
    pipe.reader.say(commands.ack(consumer_id=9, message_ids=[message_id(positions[2])]))
    assert backlog(source) == 1, "there is no such consumer"


def test_replicated_entries_are_not_sent_on() -> None:
    source, publisher, target, pipe = linked()
    publisher.send("a")
    back = Pipe(target, source)
    other = target.client()
    other.produce()
    other.send("x")
    pipe.attach()
    back.attach()
    pipe.run()
    back.run()
    assert read_all(source) == ["a", "x"]
    assert read_all(target) == ["x", "a"]


def test_entries_meant_for_others_are_skipped_and_leave_no_gap() -> None:
    _, publisher, target, pipe = linked()
    publisher.send("a")
    local = entry("kept here", replicate_to=["__local__"])
    publisher.say(commands.send(producer_id=1, sequence_id=1, entry=local))
    pipe.attach()
    pipe.run()
    pipe.attach()  # the last own entry was not meant for the target
    publisher.send("b", first=2)
    pipe.read()
    pipe.run()
    assert read_all(target) == ["a", "b"]
    assert pipe.gaps == 0


def test_a_gap_is_refused_for_good_until_the_sender_comes_again() -> None:
    _, publisher, target, pipe = linked()
    pipe.attach()
    publisher.send("a", "b", "c")
    pipe.read()
    lost = pipe.carried.pop(0)
    pipe.send(2)
    pipe.carried.append(lost)
    pipe.send(1)
    errors = pipe.writer.take("SEND_ERROR")
    assert len(errors) == 3
    assert "gap: previous=2:0 last=-1:-1" in errors[0].message
    assert {error.link_refusal for error in errors} == {pb.LinkGap}
    assert read_all(target) == []
    pipe.attach()
    pipe.run()
    assert read_all(target) == ["a", "b", "c"]


def test_the_newest_lease_holds_the_link() -> None:
    source, publisher, _, pipe = linked()
    pipe.attach()
    before = pipe.reader
    pipe.attach()
    assert "CLOSE_CONSUMER" in before.names()
    publisher.send("a")
    assert before.messages() == []
    assert pipe.reader.messages() == ["a"]
    pipe.lease = 0
    pipe.attach()
    assert [error.error for error in pipe.refusals] == [ServerError.ConsumerBusy]
    assert source.topic().replicators["jfk"].handovers == 1


def subscribe(source: Cluster, lease: int, pipeline: str | None) -> tuple[Client, list[tuple[int, str]]]:
    """Request the link to jfk as a pipeline task; return the client, and the refusals with the holders."""
    client = source.client()
    metadata = {LEASE_METADATA: str(lease)} | ({PIPELINE_METADATA: pipeline} if pipeline else {})
    body = pb.CommandSubscribe(
        topic=str(TOPIC),
        subscription="pulsar.repl.jfk",
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=1,
        request_id=client.request_id(),
        metadata=commands.key_values(metadata),
    )
    client.say(commands.subscribe(body))
    return client, [(error.link_refusal, error.link_holder) for error in client.take("ERROR")]


def test_two_pipelines_do_not_take_a_link_from_each_other_within_a_lease() -> None:
    source, _, _, _ = linked()
    first, refusals = subscribe(source, 7, "host:1:a")
    assert refusals == []
    assert subscribe(source, 7, "host:2:b")[1] == [(pb.LinkOfOtherPipeline, "host:1:a")]
    assert subscribe(source, 6, "host:2:b")[1] == [(pb.LinkOfOtherPipeline, "host:1:a")]
    assert "CLOSE_CONSUMER" not in first.names()
    stats = topic_stats(source.topic(), StatsOptions()).replication["jfk"]
    assert (stats.pipeline, stats.handovers) == ("host:1:a", 0)
    again, refusals = subscribe(source, 7, "host:1:a")  # the same task, retried
    assert refusals == []
    assert "CLOSE_CONSUMER" in first.names()
    newest, refusals = subscribe(source, 8, "host:2:b")
    assert refusals == []
    assert "CLOSE_CONSUMER" in again.names()
    newest.leave()
    source.settle()
    assert subscribe(source, 7, "host:1:a")[1] == [], "nobody holds it"


def test_pipelines_that_do_not_name_themselves_take_over_as_before() -> None:
    source, _, _, _ = linked()
    assert subscribe(source, 7, None)[1] == []
    assert subscribe(source, 7, None)[1] == []
    assert subscribe(source, 7, "host:1:a")[1] == [(pb.LinkOfOtherPipeline, OLDER_PIPELINE)]
    assert subscribe(source, 8, "host:1:a")[1] == []


def test_a_link_that_nobody_wants_is_refused() -> None:
    source, _, _, pipe = linked()
    source.replicate_to()
    pipe.attach()
    assert [error.error for error in pipe.refusals] == [ServerError.SubscriptionNotFound]


def test_a_cluster_that_leaves_the_namespace_takes_its_holder_and_its_cursor_along() -> None:
    source, _, _, pipe = linked()
    pipe.attach()
    source.replicate_to()
    assert "CLOSE_CONSUMER" in pipe.reader.names()
    assert source.topic().cursors.names() == []
    source.replicate_to("jfk")
    assert list(source.topic().replicators) == ["jfk"]
    assert source.loop.problems == []


def test_entries_at_the_target_are_confirmed_although_the_source_forgot() -> None:
    source, publisher, _, pipe = linked()
    pipe.attach()
    publisher.send("a", "b")
    pipe.read()
    pipe.run()
    source.crash()  # before the cursor was written
    assert backlog(source) == 2
    pipe.attach()
    assert backlog(source) == 0


def test_a_target_that_claims_more_than_there_is_confirms_nothing() -> None:
    source, publisher, _, pipe = linked()
    publisher.send("a")
    pipe.attach()
    pipe.seek(Position(999, 0))
    assert backlog(source) == 1


def test_a_new_producer_is_told_only_of_what_is_durable() -> None:
    _, publisher, target, pipe = linked()
    pipe.attach()
    publisher.send("a", "b")
    pipe.read()
    pipe.send(1)
    target.prompt = False
    pipe.send(1)
    late = target.client()
    late.produce(name="pulsar.repl.ewr-->jfk", epoch=9)
    assert late.names() == []
    target.fail()
    target.prompt = True
    target.settle()
    assert "PRODUCER_SUCCESS" not in late.names()
    pipe.attach()
    pipe.run()
    assert read_all(target) == ["a", "b"]


def test_entries_that_were_trimmed_start_the_link_in_the_middle() -> None:
    config = ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0)
    source, publisher, target, pipe = linked(ledger_config=config)
    pipe.attach()
    publisher.send("a")
    publisher.send("b", first=1)
    pipe.read()
    pipe.run()
    publisher.send("c", first=2)
    source.trim()
    target.do(lambda: target.delete(TOPIC))
    target.loop.advance(DELETION_GRACE_S)
    pipe.attach()
    pipe.run()
    assert read_all(target)[-1] == "c"


def test_a_stranger_on_the_link_is_refused() -> None:
    target = Cluster("jfk", targets=["ewr"])
    writer = target.client()
    writer.produce(name="pulsar.repl.ewr-->jfk")
    own = entry("without a stamp")
    other = stamp(entry("of another"), Origin("sfo", Position(1, 0), EARLIEST, EARLIEST))
    for number, body in enumerate([own, other]):
        writer.say(commands.send(producer_id=1, sequence_id=number, entry=body))
    assert [error.error for error in writer.take("SEND_ERROR")] == [ServerError.PersistenceError] * 2
    assert target.topic().ledger.entries == 0


MOVES = st.sampled_from(
    [
        *("publish", "publish", "local", "read", "send", "send", "twice", "confirm", "attach", "reattach", "permits"),
        *("source crash", "target crash", "target disk full", "target unload", "source unload", "trim", "flush"),
    ]
)


@given(st.lists(st.tuples(MOVES, st.integers(1, 4)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_and_nothing_comes_twice(moves: list[tuple[str, int]]) -> None:
    config = ManagedLedgerConfig(max_entries_per_ledger=3, min_rollover_ms=0)
    source, publisher, target, pipe = linked(ledger_config=config)
    pipe.attach()
    expected: list[str] = []
    for move, number in moves:
        if move in ("publish", "local"):
            publisher = source.client()
            publisher.produce()
            text = f"{len(expected)}" if move == "publish" else "not for jfk"
            body = entry(text, replicate_to=[] if move == "publish" else ["__local__"])
            publisher.say(commands.send(producer_id=1, sequence_id=0, entry=body))
            assert publisher.receipts()
            expected += [text] if move == "publish" else []
        else:
            carry(move, number, source, target, pipe)
    pipe.attach()
    pipe.run()
    assert read_all(target) == expected
    assert backlog(source) == 0
    assert source.loop.problems == []
    HandLoop.close_all()


def carry(move: str, number: int, source: Cluster, target: Cluster, pipe: Pipe) -> None:
    match move:
        case "read":
            pipe.read()
        case "send" | "twice":
            pipe.send(number, twice=move == "twice")
        case "confirm":
            pipe.confirm()
        case "attach" | "reattach":
            pipe.attach(seek=move == "attach")
        case "permits":
            pipe.flow(number)
        case _:
            disturb(move, number, source, target, pipe)


def disturb(move: str, number: int, source: Cluster, target: Cluster, pipe: Pipe) -> None:
    match move:
        case "flush":
            source.loop.advance(1)
            source.settle()
        case "source crash":
            source.crash()
            pipe.attach()
        case "target crash" | "target disk full":
            target.prompt = False
            pipe.send(number)
            if move == "target crash":
                target.crash()
            else:
                target.fail()
            target.prompt = True
            target.settle()
            pipe.attach()
        case "target unload" | "source unload":
            cluster = target if move == "target unload" else source
            cluster.do(lambda: cluster.topics.unload(TOPIC))
            pipe.attach()
        case "trim":
            source.trim()
