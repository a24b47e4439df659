"""Names and texts that brokers and the pipeline share beyond Pulsar's protocol (docs/protocol.md)."""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from magnetar.base.position import EARLIEST, Position

REPLICATOR_PREFIX: Final = "pulsar.repl."
"""Prefix of the names of links: of a subscription, before the target, and of a producer, before the source."""

DEDUPLICATION_CURSOR: Final = "pulsar.dedup"
"""Name of the cursor with the snapshots of deduplication."""

PROGRESS_PREFIX: Final = "magnetar.progress."
"""Prefix of the name of a progress link's producer, before the sending cluster."""

LEASE_METADATA: Final = "magnetar.lease"
"""Consumer metadata of SUBSCRIBE: the lease of a pipeline task, an increasing number."""

PIPELINE_METADATA: Final = "magnetar.pipeline"
"""Consumer metadata of SUBSCRIBE: the run of the pipeline that a task belongs to."""

PARKED_METADATA: Final = "magnetar.parked"
"""Consumer metadata of SUBSCRIBE: the reason why a task gave up the link."""

PARKED_AFTER_METADATA: Final = "magnetar.parked.after"
"""Consumer metadata of SUBSCRIBE: the newest position that the target had confirmed when a task gave up the link."""

COPIES_METADATA: Final = "magnetar.copies"
"""Consumer metadata of SUBSCRIBE: the task can return to its target entries that the target published and lost."""

CUSTODY_METADATA: Final = "magnetar.custody"
"""Consumer metadata of SUBSCRIBE: the task can carry entries of other clusters that are in the source's custody, and
its target takes them: one by one, or in runs (CUSTODY_IN_RUNS)."""

CUSTODY_ONE_BY_ONE: Final = "true"
CUSTODY_IN_RUNS: Final = "runs"
"""Values of CUSTODY_METADATA."""

RUNS_METADATA: Final = "magnetar.runs"
"""Consumer metadata of SUBSCRIBE: the task takes runs of entries."""

RUN_ENTRIES_MAX: Final = 256
"""Maximum number of entries in a run, so that a turn of a broker's event loop stays short."""

RUN_BYTES_MAX: Final = 128 * 1024
"""Maximum bytes of the entries of a run, so that topics alternate on the way to the target."""

LIFE_METADATA: Final = "magnetar.life"
"""Producer metadata of PRODUCER: the life of the link's source cluster."""

FOREIGN_LINK_PREFIX: Final = "magnetar.repl."
"""Prefix of the name of a link's subscription where the source is Apache Pulsar, which reserves REPLICATOR_PREFIX."""

TARGET_PROPERTY: Final = "magnetar.target"
"""Prefix of cursor properties of a link, before ``.ledger`` and ``.entry``: the newest entry of this cluster that the
target has confirmed."""

BOOKMARK_PREFIX: Final = "magnetar.bookmark."
"""Prefix of the name of a link's subscription in a target that is Apache Pulsar, before the source."""

OLDER_PIPELINE: Final = "one of an older version"
"""Text for a pipeline without an identity."""


NOTHING_PUBLISHED: Final = "the topic has no message of it"
"""Why ids of a former cluster are not translated: no client can have any that names a message of the topic here."""


class LinkEnd(NamedTuple):
    """The end of what a target holds of the entries of one cluster."""

    origin: str
    """The cluster whose entries are in the custody of the link's source; empty for the source itself."""
    position: Position
    """The newest position that the target holds; EARLIEST if it holds none."""


LINK_BUCKETS: Final = 64
"""Number of buckets into which the links to a target are divided, so that several tasks can carry them."""


def link_bucket(topic: str) -> int:
    """Return the bucket of the links of a topic, given by its full name (protocol: Resting links)."""
    return crc32(topic.encode()) % LINK_BUCKETS


def link_subscription(target: str, *, is_foreign: bool = False) -> str:
    """Return the name of the subscription of a link to ``target``, whose source is Apache Pulsar if ``is_foreign``."""
    return f"{FOREIGN_LINK_PREFIX if is_foreign else REPLICATOR_PREFIX}{target}"


def bookmark_subscription(source: str) -> str:
    """Return the name of the bookmark of a link from ``source`` in a target that is Apache Pulsar."""
    return f"{BOOKMARK_PREFIX}{source}"


def progress_producer(source: str) -> str:
    """Return the name of the producer of a progress link from ``source``."""
    return f"{PROGRESS_PREFIX}{source}"


def link_producer(source: str, target: str) -> str:
    """Return the name of the producer of a link."""
    return f"{REPLICATOR_PREFIX}{source}-->{target}"


def source_of(producer: str) -> str:
    """Return the source cluster of a link's or progress link's producer (protocol: Replicators)."""
    if producer.startswith(REPLICATOR_PREFIX):
        return producer.removeprefix(REPLICATOR_PREFIX).partition("-->")[0]
    return producer.removeprefix(PROGRESS_PREFIX)


def gap_text(previous: Position, last: Position | None) -> str:
    """Return the error text of a target that has entries up to ``last``, or none, for an entry after ``previous``."""
    return f"gap: previous={previous} last={EARLIEST if last is None else last}"
