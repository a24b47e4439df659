"""What must be true, kept as simply as can be: entries by their text, acknowledgements entry by entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.progress.epochs import FIRST_EPOCH
from magnetar.sim.content import text_in
from magnetar.sim.referees.times import Ages
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.entries.origin import origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.geo.progress.epochs import Epoch
    from magnetar.wire.proto import pulsar_api_pb2 as pb

ATTEMPT = "~"
"""In the text of an entry what separates the first text from the number of the attempt to publish it."""

CHUNK = "."
"""In the text of a chunk, but for a message's last one, what separates the text of the message from the chunk's id."""

Starts = dict[str, Position]
"""For each origin, where a subscription starts in it; exclusive, and absent where it starts from the beginning."""


class Entry(NamedTuple):
    """An entry, wherever it is held."""

    text: str
    cluster: str
    position: Position
    """Where it was published, and its position there."""
    members: int
    key: str = ""
    """Empty where it has none."""
    deliver_at_ms: int = 0
    """0 where it is not delayed."""
    replicate_to: tuple[str, ...] = ()
    """The clusters that it is meant for, apart from its own; empty: all."""
    chunk_id: int = 0
    chunks: int = 1
    """How many entries the message has."""

    @property
    def every(self) -> int:
        """A bit for each of its messages."""
        return (1 << self.members) - 1

    def is_for(self, cluster: str) -> bool:
        """Whether it is meant for a cluster."""
        return not self.replicate_to or cluster in self.replicate_to or cluster == self.cluster

    @property
    def base(self) -> str:
        """Its text in the first attempt to publish it."""
        return self.text.partition(ATTEMPT)[0]

    @property
    def whole(self) -> str:
        """The base of the entry with which its message is complete: its own, or that of the last chunk."""
        return self.base.partition(CHUNK)[0]


def base_of(metadata: pb.MessageMetadata) -> str:
    """The text of an entry with this metadata in the first attempt to publish it."""
    whole = f"{metadata.producer_name}-{metadata.sequence_id}"
    return whole if metadata.chunk_id >= metadata.num_chunks_from_msg - 1 else f"{whole}{CHUNK}{metadata.chunk_id}"


def read_entry(cluster: str, position: Position, data: bytes) -> Entry:
    """What an entry of ``cluster``'s log says of itself."""
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
class SiteLog:
    """One cluster's log, as it was seen to be durable; nothing of it may ever change, only its oldest part may go."""

    entries: list[tuple[Position, Entry]] = field(default_factory=list)
    at: dict[Position, Entry] = field(default_factory=dict)
    places: dict[str, Position] = field(default_factory=dict)
    """Where each text is."""
    of: dict[str, list[Entry]] = field(default_factory=dict)
    """The entries of each origin, in the log's order."""
    bases: dict[str, Entry] = field(default_factory=dict)
    """The first entry with each base."""
    sizes: list[int] = field(default_factory=list)
    """The bytes of each entry, in the log's order."""
    ages: Ages = field(default_factory=Ages)
    """When each entry became durable."""

    def add(self, position: Position, entry: Entry, size: int, now: float, *, is_returned: bool = False) -> None:
        """Note the next entry, of ``size`` bytes, which became durable ``now`` on the monotonic clock.

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
        """The starts of a subscription that begins after ``mark_delete``."""
        starts: Starts = {}
        for position, entry in self.entries:
            if position <= mark_delete:
                starts[entry.cluster] = max(entry.position, starts.get(entry.cluster, EARLIEST))
        return starts


@dataclass
class Promise:
    """What a cluster has confirmed of a subscription and may not forget: acknowledgements, in the newest epoch."""

    epoch: Epoch = FIRST_EPOCH
    acknowledged: dict[str, int] = field(default_factory=dict)
    """For each text a bit for each message."""

    def add(self, epoch: Epoch, acknowledged: Mapping[str, int]) -> None:
        """More was confirmed."""
        if epoch > self.epoch:
            self.epoch, self.acknowledged = epoch, {}
        if epoch == self.epoch:
            for text, mask in acknowledged.items():
                self.acknowledged[text] = self.acknowledged.get(text, 0) | mask


@dataclass
class Made(Promise):
    """What was acknowledged in one cluster, and confirmed to those who did it."""

    at: dict[str, float] = field(default_factory=dict)
    """When the newest part of each text was confirmed, on the monotonic clock."""

    def add_at(self, epoch: Epoch, acknowledged: Mapping[str, int], now: float) -> None:
        """More was confirmed."""
        self.add(epoch, acknowledged)
        self.at.update(dict.fromkeys(acknowledged, now))


@dataclass
class Lifetime:
    """One epoch of one subscription: what anybody did in it."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """For each text a bit for each message that a broker was asked to acknowledge, or that a seek went past."""
    starts: list[Starts] = field(default_factory=list)
    """Where it was created."""
    is_known: bool = True
    """Whether it was heard how it began; otherwise nothing can be said about it."""
    was_sought: bool = False
    """Whether it began with a seek, or an epoch before it did."""

    def acknowledge(self, text: str, mask: int) -> None:
        """A broker was asked to."""
        self.acknowledged[text] = self.acknowledged.get(text, 0) | mask

    def is_outside(self, entry: Entry) -> bool:
        """Whether somebody created the subscription behind an entry."""
        return any(entry.position <= starts.get(entry.cluster, EARLIEST) for starts in self.starts)

    def inherit(self, before: Lifetime) -> None:
        """Go on as an earlier epoch: what was done in that may count in this one."""
        self.is_known = self.is_known and before.is_known
        self.was_sought = self.was_sought or before.was_sought
        self.starts += before.starts
        for text, mask in before.acknowledged.items():
            self.acknowledge(text, mask)

    def sought(self, before: Lifetime, log: SiteLog, first: Position, mark_delete: Position, *, to_end: bool) -> None:
        """Begin as a seek in one cluster does: it says what is wanted of the log there, the rest stays as it was."""
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


class Model:
    """All that is known of what was published and acknowledged."""

    def __init__(self, clusters: list[str], *, apart: bool = False) -> None:
        """Nothing has happened yet; ``apart``: each cluster has subscriptions of its own, with epochs of its own."""
        self._apart = apart
        self.logs = {cluster: SiteLog() for cluster in clusters}
        """Each cluster's log, since the topic was last created there."""
        self.generations = dict.fromkeys(clusters, 0)
        """How often each cluster has lost the topic: it was deleted, or the disk was."""
        self.ever: dict[str, dict[str, Entry]] = {cluster: {} for cluster in clusters}
        """All that each cluster has ever held, by text."""
        self.bases: dict[str, set[str]] = {cluster: set() for cluster in clusters}
        """The same by base; not iterated."""
        self.published: dict[str, list[Entry]] = {cluster: [] for cluster in clusters}
        """What each cluster published, in its order."""
        self.ranks: dict[str, int] = {}
        """Of each text its place in that order."""
        self.lost: dict[str, int] = dict.fromkeys(clusters, 0)
        """How many of those were published before the cluster last lost the topic."""
        self.lost_with_disk: dict[str, int] = dict.fromkeys(clusters, 0)
        """How many of those were published before the cluster last lost its disk."""
        self.disk_generations: dict[str, int] = {}
        """Which generation of the topic that loss began."""
        self.returned: dict[str, set[str]] = {cluster: set() for cluster in clusters}
        """Texts of those that other clusters have sent back since; not iterated."""
        self.unsynced: set[str] = set()
        """Texts that a cluster published and lost with the power; not iterated."""
        self.damaged: set[str] = set()
        """The messages of which an entry could not be read for a while, by ``Entry.whole``; not iterated."""
        self.given: dict[str, Position] = dict.fromkeys(clusters, EARLIEST)
        """The highest position of each cluster that ever held an entry."""
        self.texts: dict[str, Entry] = {}
        self.contents: dict[str, bytes] = {}
        """Of each text the entry that a producer sent."""
        self.chunked: set[str] = set()
        """The messages that were sent in chunks, by ``Entry.whole``; not iterated."""
        self.receipts: dict[str, dict[str, Position]] = {cluster: {} for cluster in clusters}
        """By cluster, what producers got receipts for that were not compared with the log yet."""
        self.lifetimes: dict[tuple[str, str, Epoch], Lifetime] = {}
        """By cluster, subscription and epoch; the cluster is empty unless subscriptions are apart."""
        self._lost_lifetimes: dict[tuple[str, str], Lifetime] = {}
        """By cluster and subscription, all epochs in one from before the cluster lost the topic."""
        self.promises: dict[tuple[str, str], Promise] = {}
        """By cluster and subscription."""
        self.made: dict[tuple[str, str], Made] = {}
        """By cluster and subscription, those of the promises that were acknowledged by its consumers."""
        self._tombstones: dict[tuple[str, str], list[Epoch]] = {}
        """By cluster and subscription, as in ``lifetimes``."""

    def add(self, cluster: str, position: Position, entry: Entry, size: int, now: float) -> None:
        """Note the next durable entry of a cluster's log; see ``SiteLog.add``."""
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
        """Note that a cluster lost its entries from ``first`` on with the power."""
        before = self.logs[cluster]
        after = self.logs[cluster] = SiteLog()
        for (position, entry), size in zip(before.entries, before.sizes, strict=True):
            is_returned = entry.cluster == cluster and entry.position != position
            if position < first:
                after.add(position, entry, size, before.ages.appended_at[position], is_returned=is_returned)
            elif entry.cluster == cluster and not is_returned:
                self.unsynced.add(entry.text)

    def lose(self, cluster: str) -> None:
        """Note that a cluster lost the topic, with all that it promised."""
        self.logs[cluster] = SiteLog()
        self.generations[cluster] += 1
        self.lost[cluster] = len(self.published[cluster])
        self.receipts[cluster].clear()  # the log may never have been looked at: the topic was not loaded
        self.promises = {key: promise for key, promise in self.promises.items() if key[0] != cluster}
        self.made = {key: made for key, made in self.made.items() if key[0] != cluster}
        for subscription in {name for scope, name, _ in self.lifetimes if scope == cluster}:
            self._lost_lifetimes[cluster, subscription] = self.ever_acknowledged(cluster, subscription)
        self.lifetimes = {key: lifetime for key, lifetime in self.lifetimes.items() if key[0] != cluster}
        self._tombstones = {key: epochs for key, epochs in self._tombstones.items() if key[0] != cluster}

    def lose_disk(self, cluster: str) -> None:
        """Note that the topic was lost with the cluster's disk, just now."""
        self.lost_with_disk[cluster] = self.lost[cluster]
        self.disk_generations[cluster] = self.generations[cluster]
        self.returned[cluster].clear()

    def unless_lost(self, cluster: str, work: Callable[[], None]) -> Callable[[], None]:
        """``work`` for when something is confirmed; without effect if the topic is lost in the meantime."""
        generation = self.generations[cluster]
        return lambda: work() if self.generations[cluster] == generation else None

    def is_lost(self, entry: Entry) -> bool:
        """Whether the cluster that published an entry has lost it since."""
        return self.ranks[entry.text] < self.lost[entry.cluster] or entry.text in self.unsynced

    def lifetime(self, cluster: str, subscription: str, epoch: Epoch) -> Lifetime:
        """An epoch of a subscription of ``cluster``; made when there is none."""
        key = self._scope(cluster), subscription, epoch
        found = self.lifetimes.get(key)
        if found is None:
            # A seek is carried out a moment after it was heard: another may have come before it.
            found = self.lifetimes[key] = Lifetime(is_known=not epoch.cluster)
        return found

    def begin_lifetime(self, cluster: str, subscription: str, epoch: Epoch) -> Lifetime:
        """An epoch of a subscription of ``cluster`` of which it is known how it begins."""
        return self.lifetimes.setdefault((self._scope(cluster), subscription, epoch), Lifetime())

    def has_begun(self, cluster: str, subscription: str) -> bool:
        """Whether any epoch of a subscription of ``cluster`` is known."""
        scope = self._scope(cluster)
        return any((each, name) == (scope, subscription) for each, name, _ in self.lifetimes)

    def ever_acknowledged(self, cluster: str, subscription: str) -> Lifetime:
        """All epochs of a subscription of ``cluster`` in one, with those before the cluster lost the topic."""
        ever = Lifetime()
        ever.inherit(self._lost_lifetimes.get((cluster, subscription), Lifetime()))
        for (scope, name, _), lifetime in self.lifetimes.items():
            if (scope, name) == (self._scope(cluster), subscription):
                ever.inherit(lifetime)
        return ever

    def promise(self, cluster: str, subscription: str) -> Promise:
        """What a cluster confirmed of a subscription; made when there is nothing."""
        return self.promises.setdefault((cluster, subscription), Promise())

    def delete_subscription(self, cluster: str, subscription: str, epoch: Epoch) -> None:
        """Note that the subscription of ``cluster`` was deleted in this epoch."""
        self._tombstones.setdefault((self._scope(cluster), subscription), []).append(epoch)

    def is_buried(self, cluster: str, subscription: str, epoch: Epoch) -> bool:
        """Whether the subscription of ``cluster`` was deleted in this epoch or a later one."""
        return any(each >= epoch for each in self._tombstones.get((self._scope(cluster), subscription), []))

    def _scope(self, cluster: str) -> str:
        return cluster if self._apart else ""
