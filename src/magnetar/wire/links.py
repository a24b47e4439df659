"""Names and texts that brokers and the pipeline agree on beyond Pulsar's protocol (docs/protocol.md)."""

from __future__ import annotations

from typing import Final

from magnetar.base.position import EARLIEST, Position

REPLICATOR_PREFIX: Final = "pulsar.repl."
"""Prefix of names of links: of their subscriptions, before the target, and of their producers, before the source."""

PROGRESS_PREFIX: Final = "magnetar.progress."
"""Prefix of the name of a progress link's producer, before the sending cluster."""

LEASE_METADATA: Final = "magnetar.lease"
"""Consumer metadata of SUBSCRIBE: the lease of a pipeline task, a growing number."""

PIPELINE_METADATA: Final = "magnetar.pipeline"
"""Consumer metadata of SUBSCRIBE: the run of the pipeline that a task belongs to."""

PARKED_METADATA: Final = "magnetar.parked"
"""Consumer metadata of SUBSCRIBE: why a task gave up the link before."""

PARKED_AFTER_METADATA: Final = "magnetar.parked.after"
"""Consumer metadata of SUBSCRIBE: the newest position that the target had confirmed when a task gave up the link."""

COPIES_METADATA: Final = "magnetar.copies"
"""Consumer metadata of SUBSCRIBE: the task can return to its target what the target published and lost."""

LIFE_METADATA: Final = "magnetar.life"
"""Producer metadata of PRODUCER: the life of the cluster that a link comes from."""

RIVAL: Final = "another pipeline carries this link: "
"""Prefix of the refusal of a task whose link a task of another pipeline holds, before the name of that pipeline."""

GAP: Final = "gap:"
"""Prefix of the refusal of an entry that the target lacks entries before."""


def link_subscription(target: str) -> str:
    """Return the name of the subscription of a link to ``target``."""
    return f"{REPLICATOR_PREFIX}{target}"


def link_producer(source: str, target: str) -> str:
    """Return the name of the producer of a link."""
    return f"{REPLICATOR_PREFIX}{source}-->{target}"


def source_of(producer: str) -> str:
    """Return the cluster that the producer of a link, or of a progress link, comes from (protocol: Replicators)."""
    if producer.startswith(REPLICATOR_PREFIX):
        return producer.removeprefix(REPLICATOR_PREFIX).partition("-->")[0]
    return producer.removeprefix(PROGRESS_PREFIX)


def gap_text(previous: Position, last: Position | None) -> str:
    """Return the refusal of an entry behind ``previous`` by a target that holds the entries up to ``last``, or none."""
    return f"{GAP} previous={previous} last={EARLIEST if last is None else last}"
