"""A simple model of the expected state: entries by their text, and acknowledgements for each entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.progress.epochs import FIRST_EPOCH
from magnetar.sim.checks.times import Ages
from magnetar.sim.content import text_in
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.entries.origin import origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.geo.progress.epochs import Epoch
    from magnetar.wire.proto import pulsar_api_pb2 as pb

ATTEMPT = "~"
"""Separator between the first text of an entry and the number of the attempt to publish it."""

CHUNK = "."
"""Separator between the text of a message and the id of a chunk. The last chunk has the text of the message."""

Starts = dict[str, Position]
"""For each origin, the start position of a subscription; exclusive, and absent if it starts at the beginning."""


class Entry(NamedTuple):
    """An entry, in any cluster."""

    text: str
    cluster: str
    position: Position
    """The position in the publishing cluster."""
    members: int
    key: str = ""
    """Empty: no key."""
    deliver_at_ms: int = 0
    """0: no delay."""
    replicate_to: tuple[str, ...] = ()
    """The target clusters, apart from the publishing one; empty: all."""
    chunk_id: int = 0
    chunks: int = 1
    """The number of chunks of the message."""

    @property
    def every(self) -> int:
        """Return the bit set of all its messages."""
        return (1 << self.members) - 1

    def is_for(self, cluster: str) -> bool:
        """Return whether a cluster is a target of the entry."""
        return not self.replicate_to or cluster in self.replicate_to or cluster == self.cluster

    @property
    def base(self) -> str:
        """Return its text in the first attempt to publish it."""
        return self.text.partition(ATTEMPT)[0]

    @property
    def whole(self) -> str:
        """Return the base of the entry that completes its message: its own, or that of the last chunk."""
        return self.base.partition(CHUNK)[0]


def base_of(metadata: pb.MessageMetadata) -> str:
    """Return the text of an entry with this metadata in the first attempt to publish it."""
    whole = f"{metadata.producer_name}-{metadata.sequence_id}"
    return whole if metadata.chunk_id >= metadata.num_chunks_from_msg - 1 else f"{whole}{CHUNK}{metadata.chunk_id}"


def read_entry(cluster: str, position: Position, data: bytes) -> Entry:
    """Decode an entry of the log of ``cluster``."""
    metadata = parse_metadata(data)
    origin = origin_of(metadata)
    text, members = text_in(metadata, data), max(1, metadata.num_messages_in_batch)
    where, at = (cluster, position) if origin is None else (origin.cluster, origin.position)
    targets = tuple(metadata.replicate_to)
    return Entry(
        text=text,
        cluster=where,
        position=at,
        members=members,
        key=metadata.partition_key,
        deliver_at_ms=metadata.deliver_at_time,
        replicate_to=targets,
        chunk_id=max(0, metadata.chunk_id),
        chunks=max(1, metadata.num_chunks_from_msg),
    )


@dataclass
class ClusterLog:
    """The durable entries of one cluster's log. Entries never change; only the oldest ones may be removed."""

    entries: list[tuple[Position, Entry]] = field(default_factory=list)
    at: dict[Position, Entry] = field(default_factory=dict)
    places: dict[str, Position] = field(default_factory=dict)
    """The position of each text."""
    of: dict[str, list[Entry]] = field(default_factory=dict)
    """The entries of each origin, in the log's order."""
    bases: dict[str, Entry] = field(default_factory=dict)
    """The first entry of each base."""
    sizes: list[int] = field(default_factory=list)
    """The size of each entry in bytes, in the log's order."""
    ages: Ages = field(default_factory=Ages)
    """The time at which each entry became durable."""
    trimmed_before: Position = EARLIEST
    """Entries below this position were trimmed. They may return after a crash that forgets the trim."""

    def add(self, position: Position, entry: Entry, size: int, now: float, *, is_returned: bool = False) -> None:
        """Add the next entry of ``size`` bytes, durable since ``now`` on the monotonic clock.

        ``is_returned``: the cluster published it before it lost its disk. Deduplication does not know it.
        """
        self.entries.append((position, entry))
        self.sizes.append(size)
        self.ages.appended(position, now)
        self.at[position] = entry
        self.places[entry.text] = position
        self.of.setdefault(entry.cluster, []).append(entry)
        if not is_returned:
            self.bases.setdefault(entry.base, entry)

    def starts_after(self, mark_delete: Position) -> Starts:
        """Return the starts of a subscription that begins after ``mark_delete``."""
        starts: Starts = {}
        for position, entry in self.entries:
            if position <= mark_delete:
                starts[entry.cluster] = max(entry.position, starts.get(entry.cluster, EARLIEST))
        return starts


@dataclass
class Promise:
    """The confirmed state of a subscription in a cluster, to be kept: acknowledgements of the newest epoch."""

    epoch: Epoch = FIRST_EPOCH
    acknowledged: dict[str, int] = field(default_factory=dict)
    """By text, the bit set of acknowledged messages."""

    def add(self, epoch: Epoch, acknowledged: Mapping[str, int]) -> None:
        """Add confirmed acknowledgements."""
        if epoch > self.epoch:
            self.epoch, self.acknowledged = epoch, {}
        if epoch == self.epoch:
            for text, mask in acknowledged.items():
                self.acknowledged[text] = self.acknowledged.get(text, 0) | mask


@dataclass
class ClientAcknowledgements(Promise):
    """Acknowledgements made in one cluster and confirmed to its clients."""

    at: dict[str, float] = field(default_factory=dict)
    """By text, the time of the newest confirmation on the monotonic clock."""

    def add_at(self, epoch: Epoch, acknowledged: Mapping[str, int], now: float) -> None:
        """Add acknowledgements confirmed at ``now``."""
        self.add(epoch, acknowledged)
        self.at.update(dict.fromkeys(acknowledged, now))


@dataclass
class Lifetime:
    """One epoch of one subscription, with all acknowledgements that clients requested in it."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """By text, the bit set of messages that a client acknowledged or a seek skipped."""
    starts: list[Starts] = field(default_factory=list)
    """The start positions of its creations."""
    is_known: bool = True
    """Whether the beginning of the epoch was observed; otherwise nothing can be checked."""
    was_sought: bool = False
    """Whether this epoch or an earlier one began with a seek."""

    def acknowledge(self, text: str, mask: int) -> None:
        """Add a requested acknowledgement."""
        self.acknowledged[text] = self.acknowledged.get(text, 0) | mask

    def is_outside(self, entry: Entry) -> bool:
        """Return whether an entry is at or before a start of the subscription."""
        return any(entry.position <= starts.get(entry.cluster, EARLIEST) for starts in self.starts)

    def inherit(self, before: Lifetime) -> None:
        """Continue an earlier epoch, whose acknowledgements may count in this one."""
        self.is_known = self.is_known and before.is_known
        self.was_sought = self.was_sought or before.was_sought
        self.starts += before.starts
        for text, mask in before.acknowledged.items():
            self.acknowledge(text, mask)

    def sought(
        self, before: Lifetime, log: ClusterLog, first: Position, mark_delete: Position, *, to_end: bool
    ) -> None:
        """Apply a seek in one cluster: it determines the acknowledged entries of the log there, the rest stays."""
        self.is_known = self.is_known and before.is_known
        self.was_sought = True
        self.starts += before.starts
        for text, mask in before.acknowledged.items():
            place = log.places.get(text)
            if to_end or place is None or place < first:
                self.acknowledge(text, mask)
        for position, entry in log.entries:
            if position <= mark_delete:
                self.acknowledge(entry.text, entry.every)


@dataclass
class InCustody:
    """What clusters keep of others that leave and return."""

    passed_over: dict[str, set[str]]
    """By cluster, texts that it does not get, because a cluster that lacked them sent later ones."""
    custodians: dict[str, str] = field(default_factory=dict)
    """By cluster that has left, the cluster that carries its entries."""
    lost_before_return: dict[str, int] = field(default_factory=dict)
    """By cluster that has returned and has a custodian, ``Model.lost`` at that time."""


class Model:
    """All published entries and requested acknowledgements."""

    def __init__(self, clusters: list[str], *, apart: bool = False) -> None:
        """Begin empty; ``apart``: each cluster has subscriptions of its own, with epochs of its own."""
        self._apart = apart
        self.logs = {cluster: ClusterLog() for cluster in clusters}
        """By cluster, the log since the topic was last created there."""
        self.generations = dict.fromkeys(clusters, 0)
        """By cluster, the number of losses of the topic, by deletion or with the disk."""
        self.ever: dict[str, dict[str, Entry]] = {cluster: {} for cluster in clusters}
        """By cluster and text, all entries that the cluster ever held."""
        self.bases: dict[str, set[str]] = {cluster: set() for cluster in clusters}
        """By cluster, the bases of these entries; not iterated."""
        self.published: dict[str, list[Entry]] = {cluster: [] for cluster in clusters}
        """By cluster, the entries that it published, in order."""
        self.ranks: dict[str, int] = {}
        """By text, the index in that order."""
        self.lost: dict[str, int] = dict.fromkeys(clusters, 0)
        """By cluster, the number of entries published before the last loss of the topic."""
        self.lost_with_disk: dict[str, int] = dict.fromkeys(clusters, 0)
        """By cluster, the number of entries published before the last loss of the disk."""
        self.disk_generations: dict[str, int] = {}
        """By cluster, the generation of the topic that began with that loss."""
        self.returned: dict[str, set[str]] = {cluster: set() for cluster in clusters}
        """By cluster, the texts of lost entries that other clusters have sent back; not iterated."""
        self.custody = InCustody({cluster: set() for cluster in clusters})
        self.unsynced: set[str] = set()
        """Texts that a cluster published and lost with the power; not iterated."""
        self.damaged: set[str] = set()
        """The messages with an entry that was unreadable for a while, by ``Entry.whole``; not iterated."""
        self.given: dict[str, Position] = dict.fromkeys(clusters, EARLIEST)
        """By cluster, the highest position that ever held an entry."""
        self.texts: dict[str, Entry] = {}
        self.contents: dict[str, bytes] = {}
        """By text, the entry that a producer sent."""
        self.chunked: set[str] = set()
        """The messages sent in chunks, by ``Entry.whole``; not iterated."""
        self.receipts: dict[str, dict[str, Position]] = {cluster: {} for cluster in clusters}
        """By cluster, the receipts of producers that were not yet compared with the log."""
        self.lifetimes: dict[tuple[str, str, Epoch], Lifetime] = {}
        """By cluster, subscription and epoch; the cluster is empty unless subscriptions are apart."""
        self._lost_lifetimes: dict[tuple[str, str], Lifetime] = {}
        """By cluster and subscription, the union of all epochs before the cluster lost the topic."""
        self.promises: dict[tuple[str, str], Promise] = {}
        """By cluster and subscription."""
        self.made: dict[tuple[str, str], ClientAcknowledgements] = {}
        """By cluster and subscription, the promised acknowledgements that its own consumers made."""
        self._tombstones: dict[tuple[str, str], list[Epoch]] = {}
        """By cluster and subscription, as in ``lifetimes``."""

    def add(self, cluster: str, position: Position, entry: Entry, size: int, now: float) -> None:
        """Add the next durable entry of a cluster's log; see ``ClusterLog.add``."""
        is_returned = entry.cluster == cluster and entry.position != position
        if is_returned:
            self.returned[cluster].add(entry.text)
        elif entry.cluster == cluster:
            self.ranks[entry.text] = len(self.published[cluster])
            self.published[cluster].append(entry)
        self.texts[entry.text] = entry
        self.ever[cluster][entry.text] = entry
        self.bases[cluster].add(entry.base)
        self.logs[cluster].add(position, entry, size, now, is_returned=is_returned)
        self.given[cluster] = max(self.given[cluster], position)

    def cut(self, cluster: str, first: Position) -> None:
        """Remove the entries from ``first`` on, which a cluster lost with the power."""
        before = self.logs[cluster]
        after = self.logs[cluster] = ClusterLog()
        for (position, entry), size in zip(before.entries, before.sizes, strict=True):
            is_returned = entry.cluster == cluster and entry.position != position
            if position < first:
                after.add(position, entry, size, before.ages.appended_at[position], is_returned=is_returned)
            elif entry.cluster == cluster and not is_returned:
                self.unsynced.add(entry.text)

    def lose(self, cluster: str) -> None:
        """Record that a cluster lost the topic, with everything that it confirmed."""
        self.logs[cluster] = ClusterLog()
        self.generations[cluster] += 1
        self.lost[cluster] = len(self.published[cluster])
        self.receipts[cluster].clear()  # the log may never have been read: the topic was not loaded
        self.promises = {key: promise for key, promise in self.promises.items() if key[0] != cluster}
        self.made = {key: made for key, made in self.made.items() if key[0] != cluster}
        for subscription in {name for scope, name, _ in self.lifetimes if scope == cluster}:
            self._lost_lifetimes[cluster, subscription] = self.ever_acknowledged(cluster, subscription)
        self.lifetimes = {key: lifetime for key, lifetime in self.lifetimes.items() if key[0] != cluster}
        self._tombstones = {key: epochs for key, epochs in self._tombstones.items() if key[0] != cluster}

    def lose_disk(self, cluster: str) -> None:
        """Record that the last loss of the topic was a loss of the disk."""
        self.lost_with_disk[cluster] = self.lost[cluster]
        self.disk_generations[cluster] = self.generations[cluster]
        self.returned[cluster].clear()

    def returns(self, cluster: str) -> None:
        """Record that a cluster is a member again, and that its custodian sends back what it has lost."""
        self.custody.lost_before_return[cluster] = self.lost[cluster]

    def unless_lost(self, cluster: str, work: Callable[[], None]) -> Callable[[], None]:
        """Return ``work`` for the time of a confirmation; it has no effect if the topic is lost in the meantime."""
        generation = self.generations[cluster]
        return lambda: work() if self.generations[cluster] == generation else None

    def is_lost(self, entry: Entry) -> bool:
        """Return whether the publishing cluster has lost an entry since."""
        return self.ranks[entry.text] < self.lost[entry.cluster] or entry.text in self.unsynced

    def lifetime(self, cluster: str, subscription: str, epoch: Epoch) -> Lifetime:
        """Return an epoch of a subscription of ``cluster``; create it if necessary."""
        key = self._scope(cluster), subscription, epoch
        found = self.lifetimes.get(key)
        if found is None:
            # A seek is applied a moment after its request, so another one may have been applied in between.
            found = self.lifetimes[key] = Lifetime(is_known=not epoch.cluster)
        return found

    def begin_lifetime(self, cluster: str, subscription: str, epoch: Epoch) -> Lifetime:
        """Create an epoch of a subscription of ``cluster`` whose beginning is observed."""
        return self.lifetimes.setdefault((self._scope(cluster), subscription, epoch), Lifetime())

    def may_exist(self, cluster: str, subscription: str) -> bool:
        """Return whether any epoch of a subscription of ``cluster`` is known in which it was not deleted."""
        return any(
            (each, name) == (self._scope(cluster), subscription) and not self.is_buried(cluster, name, epoch)
            for each, name, epoch in self.lifetimes
        )

    def ever_acknowledged(self, cluster: str, subscription: str) -> Lifetime:
        """Return the union of all epochs of a subscription of ``cluster``, including those before a topic loss."""
        ever = Lifetime()
        ever.inherit(self._lost_lifetimes.get((cluster, subscription), Lifetime()))
        for (scope, name, _), lifetime in self.lifetimes.items():
            if (scope, name) == (self._scope(cluster), subscription):
                ever.inherit(lifetime)
        return ever

    def promise(self, cluster: str, subscription: str) -> Promise:
        """Return the confirmed state of a subscription in a cluster; create it if necessary."""
        return self.promises.setdefault((cluster, subscription), Promise())

    def delete_subscription(self, cluster: str, subscription: str, epoch: Epoch) -> None:
        """Record the deletion of a subscription of ``cluster`` in this epoch."""
        self._tombstones.setdefault((self._scope(cluster), subscription), []).append(epoch)

    def keep_subscription(self, cluster: str, subscription: str, epoch: Epoch) -> None:
        """Note that a deletion of the subscription of ``cluster`` in this epoch failed."""
        self._tombstones[self._scope(cluster), subscription].remove(epoch)

    def is_buried(self, cluster: str, subscription: str, epoch: Epoch) -> bool:
        """Return whether the subscription of ``cluster`` was deleted in this epoch or a later one."""
        return any(each >= epoch for each in self._tombstones.get((self._scope(cluster), subscription), []))

    def _scope(self, cluster: str) -> str:
        return cluster if self._apart else ""
