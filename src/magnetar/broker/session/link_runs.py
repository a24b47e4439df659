"""SEND with a run of entries, from the producer of a link (protocol: Runs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError, RequestError
from magnetar.broker.replication.run_receiver import publish_plain_run, publish_run, takes_whole
from magnetar.broker.replication.stamped_run import ArrivedRun
from magnetar.broker.session.checks import check_sizes, checked

if TYPE_CHECKING:
    from magnetar.broker.replication.receiver import ReplicatedProducer
    from magnetar.broker.replication.stamped_run import StampedEntry
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def send_run(producer: ReplicatedProducer, command: pb.CommandSend, body: bytes) -> None:
    """Publish the entries of a run; those from the first invalid one on are refused.

    Raises RemoteProtocolError if the command does not describe ``body``.
    """
    arrived = ArrivedRun(producer.source, command, body)
    if producer.topic.is_closing:
        return
    head = command.sequence_id, 0, len(arrived)
    plain = arrived.plain() if takes_whole(producer, arrived.first) else None
    if plain is not None and _are_sized(producer, plain.entries):
        publish_plain_run(producer, head, plain)
    else:
        publish_run(producer, head, [_checked(producer, stamped) for stamped in arrived.stamped()])


def _are_sized(producer: ReplicatedProducer, entries: list[bytes]) -> bool:
    try:
        check_sizes(producer, entries, is_chunk=False)
    except (RequestError, RemoteProtocolError):
        return False
    return True


def _checked(producer: ReplicatedProducer, stamped: StampedEntry) -> StampedEntry:
    if isinstance(stamped.entry, RequestError):
        return stamped
    return stamped._replace(entry=checked(producer, (0, 0, 1), stamped.entry, False))  # noqa: FBT003 - no chunk
