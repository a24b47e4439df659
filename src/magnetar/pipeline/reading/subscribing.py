"""The commands with which a task takes a link at its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.pipeline import limits
from magnetar.wire import commands
from magnetar.wire.links import (
    COPIES_METADATA,
    CUSTODY_METADATA,
    LEASE_METADATA,
    PARKED_AFTER_METADATA,
    PARKED_METADATA,
    PIPELINE_METADATA,
    RUNS_METADATA,
    link_subscription,
)
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.client.connection import PulsarConnection
    from magnetar.pipeline.reading.source_link import Seek, SourceLink
    from magnetar.pipeline.reading.task import Task


def subscribe_command(task: Task, source_link: SourceLink, broker: PulsarConnection) -> pb.CommandSubscribe:
    """Return SUBSCRIBE for a link at the broker of its topic."""
    return pb.CommandSubscribe(
        topic=source_link.attachment.topic,
        subscription=link_subscription(task.target, is_foreign=not broker.peer_is_magnetar),
        subType=pb.CommandSubscribe.Exclusive,
        metadata=commands.key_values(_metadata(task, source_link)),
        initialPosition=pb.CommandSubscribe.Earliest,
        force_topic_creation=False,
    )


def _metadata(task: Task, source_link: SourceLink) -> dict[str, str]:
    """Return the metadata of SUBSCRIBE: the pipeline, the lease, and the reason if the target has refused an entry."""
    metadata = {LEASE_METADATA: str(task.lease), COPIES_METADATA: "true", RUNS_METADATA: "true"}
    if task.custody:
        metadata[CUSTODY_METADATA] = task.custody
    if task.pipeline:
        metadata[PIPELINE_METADATA] = task.pipeline
    if source_link.reason and source_link.is_refused:
        metadata[PARKED_METADATA] = source_link.reason[: limits.REASON_CHARACTERS]
        if source_link.furthest is not None:
            metadata[PARKED_AFTER_METADATA] = str(source_link.furthest)
    return metadata


def seek_command(effect: Seek, request_id: int) -> bytes:
    """Return SEEK of an attached link."""
    origin, position = effect.end
    return commands.seek(consumer_id=effect.number, request_id=request_id, position=position, origin=origin)
