"""The receiving end of a link for runs: one SEND and one answer for many entries (protocol: Runs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import DataLossError
from magnetar.base.position import EARLIEST
from magnetar.broker.publish.producer import answer_at, answer_failed
from magnetar.broker.replication.custodians import may_carry
from magnetar.broker.replication.receiver import Arrived, Offered, ReplicatedProducer
from magnetar.geo.origins.annotation import Annotation, RunExtent
from magnetar.geo.receiving import Verdict, floor_of, judge, lacks_entries_before
from magnetar.wire.entries.plain_metadata import bounded
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.errors import MagnetarError, StorageError
    from magnetar.base.position import Position
    from magnetar.broker.publish.interfaces import SendHead
    from magnetar.broker.replication.stamped_run import PlainRun, StampedEntry
    from magnetar.wire.entries.origin import Origin

_PLAIN = pb.MessageMetadata()
"""The metadata of an entry that concerns neither brokers nor the time of delivery."""


def takes_whole(producer: ReplicatedProducer, first: Origin) -> bool:
    """Return whether a run that starts at ``first`` is new, and need not be judged entry by entry."""
    topic = producer.topic
    last = topic.log.index.last_position(first.cluster)
    return (
        producer.refusal is None
        and may_carry(topic, producer.source, first.cluster)
        and topic.deduplication.sequence_ids is None
        and judge(last, first) is Verdict.APPEND
        and not lacks_entries_before(last, first)
    )


def publish_plain_run(producer: ReplicatedProducer, head: SendHead, run: PlainRun) -> None:
    """Append a run that the producer ``takes_whole``, and answer its SEND when the entries are durable."""
    cluster = run.first.cluster
    last = producer.topic.log.index.last_position(cluster)
    session, size = producer.session, sum(map(len, run.entries))
    session.publishes_started(1, size)
    producer.count(run.messages, size)

    def durable(first: Position | None, error: StorageError | None) -> None:
        session.publishes_finished(1, size)
        if error is not None:
            producer.refusal = error
            answer_failed(producer, [head], error)
        else:
            answer_at(producer, [head], first or EARLIEST)

    extent = RunExtent(run.first.position, len(run.entries), floor_of(last, run.first))
    producer.topic.append_replicated(Annotation(cluster, (extent,), link_start=False), run.entries, durable)


def publish_run(producer: ReplicatedProducer, head: SendHead, run: Sequence[StampedEntry]) -> None:
    """Append the new entries of a run, and answer its SEND when they are durable.

    The entries from the first refused one on are refused, and the answer is the reason.
    """

    def answer(
        heads: Sequence[SendHead], verdicts: list[Verdict], first: Position | None, refusal: MagnetarError | None
    ) -> None:
        if Verdict.GAP in verdicts:
            producer.answer_refused(heads[0], refusal)
        else:
            answer_at(producer, heads, first or EARLIEST)

    producer.take_new([head], (_offered(producer, stamped) for stamped in run), answer, run[0].origin.cluster)


def _offered(producer: ReplicatedProducer, stamped: StampedEntry) -> Offered:
    entry, messages = stamped.entry, stamped.messages
    is_plain = bool(messages) and producer.topic.deduplication.sequence_ids is None
    if is_plain and isinstance(entry, bytes) and may_carry(producer.topic, producer.source, stamped.origin.cluster):
        return entry, Arrived(stamped.origin, _PLAIN), messages
    arrival = producer.read(entry)
    if not isinstance(arrival, Arrived):
        return entry, arrival, messages
    if arrival.is_returned:
        return entry, DataLossError(f"a run of {producer.source} has entries that this cluster published"), messages
    if arrival.origin != stamped.origin:
        return entry, DataLossError(f"entry {stamped.origin.position} of a run has the stamp of another one"), messages
    return entry, arrival, bounded(arrival.metadata.num_messages_in_batch)
