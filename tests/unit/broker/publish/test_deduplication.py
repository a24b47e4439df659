"""A producer that resends, with failures, restarts and other clusters: each message is stored exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.models.logs import ProducerState
from magnetar.base.errors import AdminError, DiskFullError, StorageError
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.administration import Administration
from magnetar.broker.publish import overlap
from magnetar.broker.publish.deduplication import Status
from magnetar.broker.session.receiving import receive
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.ledger.store import StoreState
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.sim.pipe import Pipe, read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.entries.batch import BatchedMessage, compress, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.frame import encode_command
from magnetar.wire.links import DEDUPLICATION_CURSOR
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable


SMALL = ManagedLedgerConfig(max_entries_per_ledger=2, min_rollover_ms=0)


def send(message: bytes, **fields: Any) -> bytes:  # noqa: ANN401 - fields of every type
    """Return a SEND with any fields."""
    return encode_command(
        pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=1, **fields)), message
    )


ON = {"brokerDeduplicationEnabled": True}


@dataclass
class Publisher:
    """A client with one named producer."""

    cluster: Cluster
    name: str = "p"

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        self.client = self.cluster.client()
        self.produce()

    def produce(self) -> None:
        self.client.produce(name=self.name, user_provided_producer_name=True)

    def last_sequence_id(self) -> int:
        (success,) = self.client.take("PRODUCER_SUCCESS")
        last: int = success.last_sequence_id
        return last

    def send(self, *sequence_ids: int) -> None:
        self.client.say(*(self.frame(sequence_id) for sequence_id in sequence_ids))

    def frame(self, sequence_id: int) -> bytes:
        text = f"{self.name}{sequence_id}"
        return commands.send(
            producer_id=1,
            sequence_id=sequence_id,
            entry=entry(text, producer_name=self.name, sequence_id=sequence_id),
        )

    def batch(self, sequence_ids: Iterable[int], *, named_end: bool = False, **metadata: Any) -> None:  # noqa: ANN401
        ids = list(sequence_ids)
        messages = [
            BatchedMessage(
                pb.SingleMessageMetadata(payload_size=0, sequence_id=each), b"%s%d" % (self.name.encode(), each)
            )
            for each in ids
        ]
        payload = encode_batch(messages)
        values = {
            "producer_name": self.name,
            "sequence_id": ids[0],
            "publish_time": 1,
            "num_messages_in_batch": len(ids),
            "uncompressed_size": len(payload),
            **({"highest_sequence_id": ids[-1]} if named_end else {}),
            **metadata,
        }
        packed = build_entry(pb.MessageMetadata(**values), compress(payload, values.get("compression", pb.NONE)))
        end = {"highest_sequence_id": ids[-1]} if named_end else {}
        self.client.say(send(packed, sequence_id=ids[0], num_messages=len(ids), **end))

    def receipts(self) -> list[tuple[int, bool]]:
        """Return the SENDs with receipts since the last call, and whether they were stored."""
        return [(sequence_id, position != EARLIEST) for sequence_id, position in self.client.receipts()]


def stored(cluster: Cluster) -> list[str]:
    return read_all(cluster)


def messages(cluster: Cluster) -> list[str]:
    """Return the messages in the log, including those in batches."""
    reader = cluster.client()
    reader.subscribe(subscription="all", permits=10_000)
    texts: list[str] = []
    for frame in [frame for frame in reader.heard if frame.command.type == pb.BaseCommand.MESSAGE]:
        metadata = parse_metadata(frame.body)
        payload = payload_of(frame.body)
        batched = metadata.HasField("num_messages_in_batch")
        texts += (
            [each.payload.decode() for each in decode_batch(metadata, payload)]
            if batched
            else [bytes(payload).decode()]
        )
    reader.say(commands.unsubscribe(consumer_id=1, request_id=reader.request_id()))
    return texts


def restarted(cluster: Cluster) -> Publisher:
    cluster.crash()
    cluster.prompt = True
    return Publisher(cluster)


# --- resent messages ------------------------------------------------------------------------------------------------


def test_resent_messages_are_stored_once_and_receipted_as_in_pulsar() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0, 1, 2)
    publisher.send(1, 2, 3)
    assert publisher.receipts() == [(0, True), (1, True), (2, True), (1, False), (2, False), (3, True)]
    assert stored(cluster) == ["p0", "p1", "p2", "p3"]
    assert cluster.topic().deduplication.duplicates == 2
    assert cluster.topic().arrivals.messages_in == 4


def test_without_deduplication_everything_is_stored() -> None:
    cluster = Cluster()
    publisher = Publisher(cluster)
    publisher.send(0, 0)
    assert stored(cluster) == ["p0", "p0"]
    publisher.connect()
    assert cluster.topic().deduplication.status is Status.DISABLED
    assert cluster.topic().cursors.names() == []


def test_producers_do_not_get_into_each_others_way() -> None:
    cluster = Cluster(settings=ON)
    first, second = Publisher(cluster, "p"), Publisher(cluster, "q")
    first.send(5)
    second.send(3)
    second.send(3, 4)
    assert stored(cluster) == ["p5", "q3", "q4"]


def test_holes_in_sequence_ids_are_fine() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(10, 20, 2**40)
    publisher.send(20, 30)
    assert stored(cluster) == ["p10", "p20", f"p{2**40}"]


def test_a_producer_is_told_where_to_go_on() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    assert publisher.last_sequence_id() == -1
    publisher.send(3, 9)
    publisher.client.leave()
    publisher.connect()
    assert publisher.last_sequence_id() == 9


def test_a_producer_with_the_highest_sequence_ids_connects_again() -> None:
    """The initial sequence id of a C++ or Python producer may be negative; SEND has it as an unsigned number."""
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.client.names()
    publisher.send(2**64 - 5, 2**64 - 4)
    publisher.client.leave()
    publisher.connect()
    assert publisher.last_sequence_id() == -4
    assert cluster.loop.problems == []


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "after a restart of the broker"])
def test_a_producer_counts_from_below_0(*, is_restarted: bool) -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(*(each % 2**64 for each in (-3, -2, -1, 0)))
    assert publisher.receipts() == [(2**64 - 3, True), (2**64 - 2, True), (2**64 - 1, True), (0, True)]
    if is_restarted:
        publisher = restarted(cluster)
    publisher.send(*(each % 2**64 for each in (-3, -1, 0, 1, 2)))
    assert [is_stored for _, is_stored in publisher.receipts()] == [False, False, False, True, True]
    assert stored(cluster) == [f"p{each}" for each in (2**64 - 3, 2**64 - 2, 2**64 - 1, 0, 1, 2)]


@pytest.mark.parametrize("named_end", [False, True], ids=["C++", "Java"])
def test_a_batch_counts_from_below_0(*, named_end: bool) -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.batch([each % 2**64 for each in (-2, -1, 0, 1)], named_end=named_end)
    publisher.batch([each % 2**64 for each in (-1, 0, 1, 2)], named_end=named_end)
    publisher.send(1, 3)
    assert messages(cluster) == [f"p{each}" for each in (2**64 - 2, 2**64 - 1, 0, 1, 2, 3)]
    publisher.client.leave()
    publisher.client.names()
    publisher.connect()
    assert publisher.last_sequence_id() == 3


def test_a_producer_is_told_to_go_on_behind_what_is_durable_and_no_further() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.prompt = False
    publisher.send(1)
    publisher.client.leave()
    again = Publisher(cluster)
    assert again.client.names() == []
    cluster.commit()
    assert again.last_sequence_id() == 1


# --- order of responses ---------------------------------------------------------------------------------------------


def test_a_duplicate_of_what_is_not_durable_yet_is_answered_behind_it() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    cluster.prompt = False
    publisher.send(0)
    publisher.send(0)
    assert publisher.receipts() == []
    cluster.commit(1)
    assert publisher.receipts() == [(0, True)]
    cluster.commit()
    assert publisher.receipts() == [(0, False)]


def test_a_duplicate_of_what_fails_fails_with_it() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.client.names()
    cluster.prompt = False
    publisher.send(0)
    publisher.send(0)
    cluster.fail()
    assert publisher.client.names() == ["SEND_ERROR", "SEND_ERROR"]


def test_a_duplicate_that_comes_after_the_failure_was_reported_is_not_receipted() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    publisher.client.names()
    cluster.prompt = False
    publisher.send(1)

    def fail_and_send_in_one_turn() -> None:
        cluster.store.fail()
        receive(publisher.client.session, publisher.client._decoder.feed_gathering(publisher.frame(0)))

    cluster.loop.call_soon(fail_and_send_in_one_turn)
    cluster.loop.spin()
    assert "SEND_RECEIPT" not in publisher.client.names()


# --- failed writes --------------------------------------------------------------------------------------------------


def test_the_first_of_a_pipeline_fails_and_is_not_lost() -> None:
    """The timeline of apache/pulsar#26113: M1 fails on the disk, M2 and M3 follow it, all are resent."""
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.client.names()
    cluster.prompt = False
    publisher.send(1)
    publisher.send(2)
    publisher.send(3)
    cluster.fail()
    cluster.prompt = True
    cluster.settle()
    assert publisher.client.names() == ["SEND_ERROR", "SEND_ERROR", "SEND_ERROR", "CLOSE_PRODUCER"]
    publisher.produce()
    assert publisher.last_sequence_id() == -1
    publisher.send(1, 2, 3)
    assert stored(cluster) == ["p1", "p2", "p3"]


def broken(frame: bytes) -> bytes:
    """Return the frame with a corrupt byte."""
    return frame[:-1] + bytes([frame[-1] ^ 1])


@pytest.mark.parametrize("reads", [1, 3], ids=["one read", "three reads"])
def test_the_first_of_a_pipeline_is_refused_and_is_not_lost(reads: int) -> None:
    """The other timeline of apache/pulsar#26113: M1 is refused before the disk, M2 and M3 are intact and follow it."""
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    publisher.client.names()
    frames = [broken(publisher.frame(1)), publisher.frame(2), publisher.frame(3)]
    if reads == 1:
        publisher.client.say(*frames)
    else:
        for frame in frames:
            publisher.client.say(frame)
    assert publisher.client.names() == ["SEND_ERROR", "CLOSE_PRODUCER"]
    publisher.produce()
    publisher.send(1, 2, 3)
    assert stored(cluster) == ["p0", "p1", "p2", "p3"]


def test_entries_before_a_refused_one_are_receipted_before_the_refusal() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.client.names()
    cluster.prompt = False
    publisher.client.say(publisher.frame(1), broken(publisher.frame(2)), publisher.frame(3))
    assert publisher.client.names() == []
    cluster.commit()
    assert publisher.client.names() == ["SEND_RECEIPT", "SEND_ERROR", "CLOSE_PRODUCER"]


def test_a_refusal_on_a_full_disk_does_not_affect_entries_in_flight() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.client.names()
    cluster.prompt = False
    publisher.send(0)
    cluster.store.state = StoreState(shortage=DiskFullError("no space left"))
    publisher.send(1)
    cluster.store.state = StoreState()
    cluster.prompt = True
    cluster.settle()
    assert sorted(publisher.client.names()) == ["CLOSE_PRODUCER", "SEND_ERROR", "SEND_RECEIPT"]
    publisher.produce()
    assert publisher.last_sequence_id() == 0
    publisher.send(0, 1)
    assert publisher.receipts() == [(0, False), (1, True)]
    assert stored(cluster) == ["p0", "p1"]
    assert cluster.loop.problems == []


# --- restarts --------------------------------------------------------------------------------------------------------


def test_after_a_crash_the_log_tells_what_is_here() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0, 1)
    cluster.prompt = False
    publisher.send(2)
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 1
    publisher.send(0, 1, 2)
    assert stored(cluster) == ["p0", "p1", "p2"]


def test_after_an_orderly_end_nothing_is_read_again() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0, 1)
    cluster.do(lambda: cluster.loop.create_task(cluster.topics.stop()))
    cluster.store.cached = False
    cluster.store.read = None  # type: ignore[assignment]
    cluster.start()
    assert cluster.topic().deduplication.status is Status.ENABLED
    assert Publisher(cluster).last_sequence_id() == 1


def test_a_snapshot_spares_reading_what_is_before_it() -> None:
    cluster = Cluster(settings=ON | {"brokerDeduplicationEntriesInterval": 3})
    publisher = Publisher(cluster)
    for sequence_id in range(5):
        publisher.send(sequence_id)
    cursor = cluster.topic().deduplication.cursor
    assert cursor is not None
    assert cursor.state.mark_delete_position.entry_id == 2
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 4
    cursor = cluster.topic().deduplication.cursor
    assert cursor is not None
    assert cursor.state.mark_delete_position.entry_id == 2


def test_a_snapshot_that_is_not_durable_is_not_missed() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.prompt = False
    cluster.loop.call_soon(cluster.topic().deduplication.snapshot)
    cluster.loop.spin()
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 0


def test_a_snapshot_that_failed_is_made_up_for() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.prompt = False
    deduplication = cluster.topic().deduplication
    cluster.loop.call_soon(deduplication.snapshot)
    cluster.loop.spin()
    cluster.fail()
    cluster.prompt = True
    publisher.send(1)
    cluster.do(deduplication.snapshot)
    cluster.do(lambda: cluster.loop.create_task(cluster.topics.stop()))
    cluster.start()
    assert Publisher(cluster).last_sequence_id() == 1


def test_nothing_is_trimmed_before_a_snapshot_that_failed_is_made_up_for() -> None:
    cluster = Cluster(settings=ON, ledger_config=SMALL)
    Publisher(cluster, "p").send(0, 1)
    Publisher(cluster, "q").send(0)
    topic = cluster.topic()
    cluster.prompt = False
    cluster.loop.call_soon(topic.deduplication.snapshot)
    cluster.loop.spin()
    cluster.fail()
    cluster.prompt = True
    cluster.trim()
    assert topic.ledger.entries == 1
    cluster.crash()
    assert Publisher(cluster, "p").last_sequence_id() == 1


def test_a_cursor_that_says_more_than_its_snapshots_is_not_believed() -> None:
    """Entries before the cursor's mark-delete position may be missing in its attachments, if the disk was full."""
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    topic = cluster.topic()
    cluster.do(topic.deduplication.snapshot)
    publisher.send(1)
    cursor = topic.deduplication.cursor
    assert cursor is not None
    cursor.acknowledge_cumulative(topic.ledger.last_confirmed_entry)
    cluster.do(lambda: cursor.flush(lambda _: None))
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 1


def test_snapshots_are_taken_when_they_are_old_enough() -> None:
    cluster = Cluster(settings=ON | {"brokerDeduplicationSnapshotIntervalSeconds": 60})
    publisher = Publisher(cluster)
    publisher.send(0)
    deduplication = cluster.topic().deduplication
    assert deduplication.cursor is not None
    before = deduplication.cursor.state.mark_delete_position
    cluster.loop.advance(59)
    cluster.do(deduplication.maintain)
    assert deduplication.cursor.state.mark_delete_position == before
    cluster.loop.advance(1)
    cluster.do(deduplication.maintain)
    assert deduplication.cursor.state.mark_delete_position == cluster.topic().ledger.last_confirmed_entry


def test_producers_wait_until_the_topic_knows_them() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.crash()
    cluster.prompt = False
    topic = cluster.do(lambda: cluster.topics.get(TOPIC))
    assert topic.deduplication.status is Status.RECOVERING
    publisher = Publisher(cluster)
    assert publisher.client.names() == []
    cluster.prompt = True
    cluster.settle()
    assert publisher.last_sequence_id() == 0
    assert topic.deduplication.is_ready


@pytest.mark.parametrize("look", ["producer", "broker"])
def test_a_log_that_cannot_be_read_keeps_producers_out_until_it_can(look: str) -> None:
    cluster = Cluster(settings=ON)
    Publisher(cluster).send(0)
    cluster.crash()
    cluster.store.cached = False
    read = cluster.store.read
    cluster.store.read = _unreadable  # type: ignore[assignment]
    publisher = Publisher(cluster)
    (error,) = publisher.client.take("ERROR")
    assert "bad sector" in error.message
    deduplication = cluster.topic().deduplication
    assert deduplication.status is Status.FAILED
    cluster.store.read = read  # type: ignore[method-assign]
    if look == "producer":
        publisher.produce()
        assert publisher.last_sequence_id() == 0
    else:
        cluster.do(deduplication.maintain)
        assert deduplication.is_ready


async def _unreadable(*_: object) -> list[bytes]:
    message = "bad sector"
    raise StorageError(message)


def test_a_topic_may_be_unloaded_while_it_learns() -> None:
    cluster = Cluster(settings=ON)
    Publisher(cluster).send(0)
    cluster.crash()
    cluster.prompt = False
    cluster.do(lambda: cluster.topics.get(TOPIC))
    publisher = Publisher(cluster)
    cluster.loop.call_soon(cluster.topics.unload, TOPIC)
    cluster.prompt = True
    cluster.settle()
    assert publisher.last_sequence_id() == 0
    assert cluster.loop.problems == []


# --- batches and chunks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named_end", [False, True], ids=["as C++ does", "as Java does"])
def test_a_batch_counts_with_its_last_message(named_end: bool) -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.batch(range(5), named_end=named_end)
    publisher.client.names()
    publisher.batch(range(5), named_end=named_end)
    assert publisher.receipts() == [(0, False)]
    publisher.client.leave()
    publisher.connect()
    assert publisher.last_sequence_id() == 4
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 4
    assert messages(cluster) == ["p0", "p1", "p2", "p3", "p4"]


@pytest.mark.parametrize("compression", [pb.NONE, pb.ZLIB, pb.LZ4])
def test_of_a_batch_that_is_here_in_part_the_rest_is_stored(compression: pb.CompressionType.ValueType) -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.batch(range(5), compression=compression)
    publisher.batch(range(3, 8), compression=compression)
    assert publisher.receipts() == [(0, True), (3, True)]
    assert messages(cluster) == [f"p{number}" for number in range(8)]
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 7


def test_the_rest_of_a_large_batch_is_stored_without_compression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "COMPRESSED_SIZE_MAX", 0)
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.batch(range(5), compression=pb.ZLIB)
    publisher.batch(range(3, 8), compression=pb.ZLIB)
    assert messages(cluster) == [f"p{number}" for number in range(8)]
    ledger = cluster.topic().ledger
    rest = ledger.read_cached(ledger.last_confirmed_entry, 1, 1) or []
    assert [parse_metadata(entry).compression for _, entry in rest] == [pb.NONE]


def test_of_a_batch_with_holes_nothing_is_taken_for_a_duplicate_that_is_not_here() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(15)
    publisher.batch([10, 20, 30])
    publisher.batch([10, 20, 30])
    assert messages(cluster) == ["p15", "p20", "p30"]


def test_a_batch_with_holes_counts_with_its_last_message() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.batch([10, 20, 30])
    publisher.send(20)
    publisher.batch([20, 30, 40])
    assert messages(cluster) == ["p10", "p20", "p30", "p40"]
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 40


def test_a_batch_that_cannot_be_opened_is_stored_whole_rather_than_lost() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.batch(range(2))
    publisher.batch(range(1, 3), encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")])
    assert publisher.receipts() == [(0, True), (1, True)]
    publisher.batch(range(1, 3), encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")])
    assert publisher.receipts() == [(1, False)]


def chunk(publisher: Publisher, sequence_id: int, chunk_id: int, chunks: int) -> None:
    message = entry(
        f"{publisher.name}{sequence_id}-{chunk_id}",
        producer_name=publisher.name,
        sequence_id=sequence_id,
        uuid=f"{publisher.name}-{sequence_id}",
        chunk_id=chunk_id,
        num_chunks_from_msg=chunks,
    )
    publisher.client.say(send(message, sequence_id=sequence_id, is_chunk=True))


def test_the_chunks_of_a_message_share_their_sequence_id() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    for chunk_id in range(3):
        chunk(publisher, 0, chunk_id, 3)
    publisher.send(1)
    assert stored(cluster) == ["p0-0", "p0-1", "p0-2", "p1"]
    for chunk_id in range(3):
        chunk(publisher, 0, chunk_id, 3)
    assert publisher.receipts()[4:] == [(0, False)] * 3
    assert len(stored(cluster)) == 4


def test_a_message_is_here_when_its_last_chunk_is() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    chunk(publisher, 7, 0, 2)
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 0
    chunk(publisher, 7, 0, 2)
    chunk(publisher, 7, 1, 2)
    assert stored(cluster) == ["p0", "p7-0", "p7-0", "p7-1"]
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 7


# --- messages that another cluster has -------------------------------------------------------------------------------


def stored_elsewhere(cluster: Cluster, **sequence_ids: int) -> None:
    """Note sequence ids as a migration does, durably."""
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    state = ProducerState(sequence_ids=sequence_ids)
    adding = cluster.do(lambda: cluster.loop.create_task(administration.logs.add_producer_state(TOPIC, state)))
    adding.result()


def test_messages_that_another_cluster_has_are_duplicates_also_after_a_crash() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0, 1)
    stored_elsewhere(cluster, p=7, q=3, r=-2)
    publisher.send(2, 7, 8)
    assert publisher.receipts() == [(0, True), (1, True), (2, False), (7, False), (8, True)]
    stored_elsewhere(cluster, p=5)  # a repeated request
    cluster.crash()
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    known = cluster.loop.run_until_complete(administration.logs.producer_state(TOPIC))
    assert known == ProducerState(sequence_ids={"p": 8, "q": 3, "r": -2})
    assert Publisher(cluster, "q").last_sequence_id() == 3


def test_without_deduplication_sequence_ids_are_refused() -> None:
    cluster = Cluster()
    Publisher(cluster)
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    assert cluster.loop.run_until_complete(administration.logs.producer_state(TOPIC)) == ProducerState()
    with pytest.raises(AdminError, match="is off") as raised:
        stored_elsewhere(cluster, p=7)
    assert raised.value.status == 412


# --- the cursor ------------------------------------------------------------------------------------------------------


def test_the_cursor_is_no_subscription() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    assert cluster.topic().cursors.names() == [DEDUPLICATION_CURSOR]
    publisher.client.subscribe(subscription=DEDUPLICATION_CURSOR)
    assert len(publisher.client.take("ERROR")) == 1
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    assert cluster.loop.run_until_complete(administration.subscriptions.names(TOPIC)) == []
    restarted(cluster)
    assert cluster.topic().subscriptions == {}


def test_no_entry_is_trimmed_before_a_snapshot_accounts_for_it() -> None:
    cluster = Cluster(settings=ON, ledger_config=SMALL)
    publisher = Publisher(cluster)
    for sequence_id in range(6):
        publisher.send(sequence_id)
    cluster.prompt = False
    topic = cluster.topics.loaded[TOPIC]
    consumed = topic.deduplication.cursor
    assert consumed is not None
    assert consumed in topic.all_cursors()
    cluster.prompt = True
    cluster.trim()
    assert topic.ledger.entries == 2
    publisher = restarted(cluster)
    assert publisher.last_sequence_id() == 5
    publisher.send(*range(6))
    assert publisher.receipts() == [(sequence_id, False) for sequence_id in range(6)]


def test_inactive_producers_are_forgotten_and_stay_so() -> None:
    cluster = Cluster(settings=ON | {"brokerDeduplicationProducerInactivityTimeoutMinutes": 1})
    gone, there = Publisher(cluster, "gone"), Publisher(cluster, "there")
    gone.send(5)
    there.send(5)
    gone.client.leave()
    cluster.do(cluster.topic().deduplication.snapshot)
    cluster.loop.advance(61)
    cluster.do(cluster.topic().deduplication.maintain)
    cluster.crash()
    assert Publisher(cluster, "gone").last_sequence_id() == -1
    assert Publisher(cluster, "there").last_sequence_id() == 5


def test_beyond_the_limit_producers_that_left_are_forgotten() -> None:
    cluster = Cluster(settings=ON | {"brokerDeduplicationMaxNumberOfProducers": 2})
    for name in ("a", "b", "c"):
        publisher = Publisher(cluster, name)
        publisher.send(1)
        publisher.client.leave()
    cluster.do(cluster.topic().deduplication.maintain)
    assert [Publisher(cluster, name).last_sequence_id() for name in ("a", "b", "c")] == [-1, 1, 1]


# --- on and off ------------------------------------------------------------------------------------------------------


def switch(cluster: Cluster, *, on: bool) -> None:
    deduplication = cluster.topic().deduplication
    cluster.do(lambda: deduplication.apply(enabled=on))
    cluster.settle()


def connected_again(cluster: Cluster) -> Publisher:
    """Return a producer that published 0 to 3 before its last connection."""
    publisher = Publisher(cluster)
    publisher.send(0, 1, 2, 3)
    publisher.client.leave()
    publisher.connect()
    return publisher


def test_switched_on_it_knows_what_was_published_before() -> None:
    cluster = Cluster()
    publisher = Publisher(cluster)
    publisher.send(0, 1)
    switch(cluster, on=True)
    assert cluster.topic().deduplication.status is Status.ENABLED
    publisher.send(1, 2)
    assert stored(cluster) == ["p0", "p1", "p2"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["goes on", "after a restart of the broker"])
def test_a_producer_that_was_numbered_anew_loses_nothing_when_it_is_switched_on(*, is_restarted: bool) -> None:
    """While deduplication was off, the restarted producer was told no sequence id, and began with 0 again."""
    cluster = Cluster()
    publisher = connected_again(cluster)
    publisher.send(0)
    switch(cluster, on=True)
    if is_restarted:
        cluster.settings = ON
        publisher = restarted(cluster)
        assert publisher.last_sequence_id() == 0
    publisher.send(0, 1, 2)
    assert stored(cluster) == ["p0", "p1", "p2", "p3", "p0", "p1", "p2"]


@pytest.mark.parametrize("is_early", [False, True], ids=["afterwards", "while it learns"])
def test_a_connected_producer_that_has_not_published_loses_nothing_when_it_is_switched_on(*, is_early: bool) -> None:
    cluster = Cluster()
    publisher = connected_again(cluster)
    if is_early:
        cluster.loop.call_soon(lambda: cluster.topics.loaded[TOPIC].deduplication.apply(enabled=True))
        cluster.prompt = False
        cluster.loop.spin()
        publisher.send(0)
        assert cluster.topics.loaded[TOPIC].deduplication.status is Status.RECOVERING
        cluster.prompt = True
        cluster.settle()
    else:
        switch(cluster, on=True)
        publisher.send(0)
    publisher.send(1)
    publisher.send(0, 1, 2)
    assert stored(cluster) == ["p0", "p1", "p2", "p3", "p0", "p1", "p2"]
    assert cluster.loop.problems == []


@pytest.mark.parametrize("is_killed", [False, True], ids=["of the connection", "of the broker"])
def test_a_connected_producer_that_has_not_published_loses_nothing_after_a_failure(*, is_killed: bool) -> None:
    """Its client has numbered messages, which it sends again after the failure, whatever it is told then."""
    cluster = Cluster()
    publisher = connected_again(cluster)
    switch(cluster, on=True)
    if is_killed:
        cluster.settings = ON
        publisher = restarted(cluster)
    else:
        publisher.client.leave()
        publisher.connect()
    publisher.send(0, 1)
    assert stored(cluster) == ["p0", "p1", "p2", "p3", "p0", "p1"]


def test_a_producer_that_is_numbered_anew_after_a_snapshot_loses_nothing_when_the_broker_is_killed() -> None:
    cluster = Cluster()
    publisher = connected_again(cluster)
    switch(cluster, on=True)
    cluster.do(cluster.topic().deduplication.snapshot)
    publisher.send(0)
    cluster.settings = ON
    publisher = restarted(cluster)
    publisher.send(0, 1)
    assert stored(cluster) == ["p0", "p1", "p2", "p3", "p0", "p1"]


def test_a_producer_that_connects_after_it_is_switched_on_learns_its_last_message() -> None:
    cluster = Cluster()
    publisher = Publisher(cluster)
    publisher.send(0, 1, 2, 3)
    idle = Publisher(cluster, "idle")
    switch(cluster, on=True)
    publisher.client.leave()
    idle.client.leave()
    assert Publisher(cluster).last_sequence_id() == 3
    assert Publisher(cluster, "idle").last_sequence_id() == -1


def test_a_topics_own_policy_holds() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    change = cluster.resources.topic_policies.change
    cluster.do(lambda: change(TOPIC, deduplicationEnabled=False))
    publisher.send(0, 0)
    cluster.do(lambda: change(TOPIC, deduplicationEnabled=True))
    publisher.send(0, 1)
    assert stored(cluster) == ["p0", "p0", "p1"]


def test_messages_published_while_it_is_enabled_are_known_too() -> None:
    cluster = Cluster()
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.prompt = False
    publisher.send(1)
    cluster.loop.call_soon(lambda: cluster.topics.loaded[TOPIC].deduplication.apply(enabled=True))
    cluster.loop.spin()
    publisher.send(2)
    assert cluster.topics.loaded[TOPIC].deduplication.status is Status.RECOVERING
    cluster.prompt = True
    cluster.settle()
    publisher.send(1, 2, 3)
    assert stored(cluster) == ["p0", "p1", "p2", "p3"]


def test_switched_off_it_forgets_everything() -> None:
    cluster = Cluster(settings=ON)
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.prompt = False
    publisher.send(1)
    cluster.prompt = True
    switch(cluster, on=False)
    assert cluster.topic().deduplication.status is Status.DISABLED
    assert cluster.topic().cursors.names() == []
    publisher.send(1)
    assert stored(cluster) == ["p0", "p1", "p1"]
    assert cluster.loop.problems == []
    switch(cluster, on=True)
    publisher.send(1)
    assert len(stored(cluster)) == 3


def test_switched_off_while_it_learns() -> None:
    cluster = Cluster()
    publisher = Publisher(cluster)
    publisher.send(0)
    cluster.prompt = False
    deduplication = cluster.topic().deduplication
    cluster.loop.call_soon(lambda: deduplication.apply(enabled=True))
    cluster.loop.spin()
    waiting = Publisher(cluster, "q")
    cluster.loop.call_soon(lambda: deduplication.apply(enabled=False))
    cluster.prompt = True
    cluster.settle()
    assert waiting.last_sequence_id() == -1
    assert deduplication.status is Status.DISABLED
    assert cluster.loop.problems == []


def test_switched_off_and_on_again_while_it_learns() -> None:
    cluster = Cluster(settings=ON)
    Publisher(cluster).send(0)
    cluster.crash()
    cluster.prompt = False
    deduplication = cluster.do(lambda: cluster.topics.get(TOPIC)).deduplication
    publisher = Publisher(cluster)

    def off_and_on() -> None:
        deduplication.apply(enabled=False)
        deduplication.apply(enabled=True)

    cluster.loop.call_soon(off_and_on)
    cluster.loop.spin()
    assert deduplication.status is Status.RECOVERING
    assert publisher.client.names() == []
    cluster.prompt = True
    cluster.settle()
    assert publisher.last_sequence_id() == 0


def test_a_cursor_that_nobody_wants_any_more_does_not_hold_anything_back() -> None:
    cluster = Cluster(settings=ON)
    Publisher(cluster).send(0)
    cluster.settings = {}
    cluster.crash()
    assert cluster.topic().cursors.names() == []
    assert cluster.topic().all_cursors() == []


# --- other clusters -------------------------------------------------------------------------------------------------


def pair() -> tuple[Cluster, Cluster, Pipe]:
    loop = HandLoop()
    source = Cluster("ewr", targets=["jfk"], loop=loop, settings=ON)
    target = Cluster("jfk", targets=["ewr"], loop=loop, settings=ON)
    return source, target, Pipe(source, target)


def test_a_producer_that_moves_goes_on_behind_what_was_replicated() -> None:
    source, target, pipe = pair()
    publisher = Publisher(source)
    pipe.attach()
    publisher.send(*range(5))
    pipe.read()
    pipe.send(3)
    publisher = Publisher(target)
    assert publisher.last_sequence_id() == 2
    publisher.send(*range(5))
    assert publisher.receipts() == [(0, False), (1, False), (2, False), (3, True), (4, True)]
    assert stored(target) == [f"p{number}" for number in range(5)]


def test_newer_messages_of_a_producer_that_moved_arrive_while_older_ones_are_refused() -> None:
    loop = HandLoop()
    ewr, lga = (Cluster(name, targets=["jfk"], loop=loop, settings=ON) for name in ("ewr", "lga"))
    jfk = Cluster("jfk", targets=["ewr", "lga"], loop=loop, settings=ON)
    older, newer = Pipe(ewr, jfk), Pipe(lga, jfk)
    for pipe, sequence_id in ((older, 1), (newer, 2)):
        pipe.attach()
        Publisher(pipe.source).send(sequence_id)
        pipe.read()
    jfk.prompt = False
    newer.send(1)
    jfk.store.state = StoreState(shortage=DiskFullError("no space left"))
    older.send(1)
    jfk.store.state = StoreState()
    jfk.prompt = True
    jfk.settle()
    newer.confirm()
    assert (newer.unconfirmed, jfk.loop.problems) == ({}, [])
    older.attach()
    older.run()
    assert stored(jfk) == ["p2", "p1"]


def test_replicated_messages_are_known_after_a_crash() -> None:
    source, target, pipe = pair()
    publisher = Publisher(source)
    pipe.attach()
    publisher.send(0, 1)
    pipe.read()
    pipe.run()
    publisher = restarted(target)
    assert publisher.last_sequence_id() == 1


def test_a_duplicate_of_what_is_just_being_replicated_waits_for_it() -> None:
    source, target, pipe = pair()
    publisher = Publisher(source)
    pipe.attach()
    publisher.send(0)
    pipe.read()
    mover = Publisher(target)
    mover.client.names()
    target.prompt = False
    pipe.send(1)
    mover.send(0)
    assert mover.client.names() == []
    target.prompt = True
    target.settle()
    assert mover.receipts() == [(0, False)]
    assert stored(target) == ["p0"]


def test_entries_of_another_cluster_are_never_dropped_by_what_is_known_of_their_producer() -> None:
    """A producer may publish different messages in two clusters, both with receipts: see decision 0006."""
    source, target, pipe = pair()
    publisher = Publisher(source)
    publisher.send(0, 1)
    mover = Publisher(target)
    mover.send(5)
    pipe.attach()
    pipe.run()
    assert stored(target) == ["p5", "p0", "p1"]
    mover.send(1)
    assert mover.receipts()[-1] == (1, False)
