"""Clusters that publish, replicate, acknowledge and exchange progress, each with a reference model.

The reference of a subscription is a set of entries. After every step it must equal the real state, in origin positions
and in the cursor: an additional entry there would be skipped, a missing one delivered again.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from magnetar.base.position import EARLIEST, Position
from magnetar.base.real import SystemClock
from magnetar.broker.loop.slices import at_once
from magnetar.cursor.store import CursorStore
from magnetar.geo.origins.annotation import RunExtent, decode_annotation, encode_annotation
from magnetar.geo.origins.index import OriginIndex, PartialClaim
from magnetar.geo.progress.codec import decode_marker, encode_markers, encode_state, restoring
from magnetar.geo.progress.effects import LocalEffects, effects_of_all, effects_of_merge, effects_on_arrival
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch
from magnetar.geo.progress.seeking import sought
from magnetar.geo.progress.state import Kind, SubscriptionProgress
from magnetar.geo.receiving import Verdict, floor_of, judge
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.wire.entries.origin import Origin
from tests.unit.cursor.fakes import Log, MemoryLedgerStore, singly

SUBSCRIPTION = "worker"
BATCH = 3
EVERY = (1 << BATCH) - 1

Entry = tuple[str, Position]  # origin cluster and origin position


@dataclass
class Twin:
    """The reference model of one subscription: sets of entries."""

    epoch: Epoch = FIRST_EPOCH
    starts: dict[str, Position] = field(default_factory=dict)
    acknowledged: set[Entry] = field(default_factory=set)
    partial: dict[Entry, int] = field(default_factory=dict)

    def outside(self, entry: Entry) -> bool:
        return entry[1] <= self.starts.get(entry[0], EARLIEST)

    def narrow(self, entry: Entry, remaining: int) -> None:
        left = self.partial.get(entry, EVERY) & remaining
        if entry in self.acknowledged or left == EVERY:
            return
        if left == 0:
            self.partial.pop(entry, None)
            self.acknowledged.add(entry)
        else:
            self.partial[entry] = left

    def acknowledge(self, entry: Entry) -> None:
        self.narrow(entry, 0)

    def merge(self, other: Twin) -> None:
        if other.epoch < self.epoch:
            return
        if other.epoch > self.epoch:
            self.epoch, self.starts, self.acknowledged, self.partial = other.epoch, dict(other.starts), set(), {}
        both = {cluster: min(start, other.starts.get(cluster, EARLIEST)) for cluster, start in self.starts.items()}
        self.starts = {cluster: start for cluster, start in both.items() if start != EARLIEST}
        for entry in other.acknowledged:
            self.acknowledge(entry)
        for entry, remaining in other.partial.items():
            self.narrow(entry, remaining)


@dataclass
class Message:
    """A marker in transit, with the entries that its parts acknowledge."""

    target: str
    payload: bytes
    twins: list[Twin]


class Cluster:
    """One cluster's topic and its subscription."""

    def __init__(self, name: str, network: ClusterNetwork, number: int) -> None:
        self.name, self.network = name, network
        self.log = Log(first_ledger_id=3 + number, step=5 + number)
        self.store, self.metadata = MemoryLedgerStore(), MemoryMetadataStore(SystemClock())
        self.entries: dict[Position, Entry] = {}
        self.runs: list[tuple[Position, bytes]] = []
        self.before: dict[str, Position] = {}
        self.index = OriginIndex(name)
        self.cursors = CursorStore(self.store, self.metadata, "persistent://a/b/c", self.log)
        self.progress: SubscriptionProgress | None = None
        self.twin = Twin()
        self.durable_twin = Twin()
        self.targets: dict[Position, set[str]] = {}  # own entries with their target clusters

    # --- the log ---------------------------------------------------------------------------------------------------

    def publish(self, targets: set[str]) -> None:
        position = self.log.append()
        self.runs.append((position, b""))
        self.entries[position] = (self.name, position)
        self.targets[position] = targets
        self.index.append(self.name, position, 1, position)
        self.network.published.append((self.name, position))

    def offer(self, origin: Origin) -> Verdict:
        last = self.index.last_position(origin.cluster)
        verdict = judge(last, origin)
        if verdict is not Verdict.APPEND:
            return verdict
        floor = floor_of(last, origin)
        local = self.log.append()
        self.runs.append(
            (local, encode_annotation(origin.cluster, [RunExtent(origin.position, 1, floor)], link_start=False))
        )
        self.entries[local] = (origin.cluster, origin.position)
        self.index.append(origin.cluster, origin.position, 1, local, floor)
        if self.progress is not None:
            self.take(effects_on_arrival(self.index, self.progress, origin.cluster, floor, origin.position))
        return verdict

    def trim(self) -> None:
        if self.progress is None:
            return
        self.flush()
        self.store.settle()
        keep = self.cursor.state.mark_delete_position.ledger_id
        gone = [position for position in self.log.positions if position.ledger_id < keep]
        if gone:
            self.before = self.index.positions_at(gone[-1])
            self.log.trim(keep)
            self.runs = [run for run in self.runs if run[0].ledger_id >= keep]
            self.index.trim(self.log.next_position(gone[-1]))
            self.entries = {position: entry for position, entry in self.entries.items() if position.ledger_id >= keep}

    # --- the subscription ------------------------------------------------------------------------------------------

    def subscribe(self, mark_delete: Position) -> None:
        if self.progress is None:
            self.cursor = self.cursors.create(SUBSCRIPTION, mark_delete)
            starts = self.index.positions_at(mark_delete)
            self.progress = SubscriptionProgress(SUBSCRIPTION, starts)
            self.twin = Twin(starts=self.naive_starts(mark_delete))
            self.cursor.checkpoint_attachment = self.state_bytes
            self.flush()
            self.store.settle()

    def naive_starts(self, mark_delete: Position) -> dict[str, Position]:
        starts = dict(self.before)
        for local in sorted(self.entries):
            if local <= mark_delete:
                starts[self.entries[local][0]] = self.entries[local][1]
        return starts

    def state_bytes(self) -> bytes:
        assert self.progress is not None
        return encode_state(self.progress)

    def acknowledge(self, positions: list[Position]) -> None:
        for position in positions:
            self.twin_acknowledge(position)
        self.claim(self.cursor.acknowledge_ranges(singly(positions)))

    def acknowledge_through(self, through: Position) -> None:
        for position in self.entries:
            if position <= through:
                self.twin_acknowledge(position)
        self.claim(self.cursor.acknowledge_cumulative(through))

    def acknowledge_batch(self, position: Position, remaining: int) -> None:
        entry = self.entries[position]
        if not self.twin.outside(entry):
            self.twin.narrow(entry, remaining)
        newly = self.cursor.acknowledge_batch(position, remaining, BATCH)
        left = self.cursor.state.remaining(position)
        self.claim(newly, [] if left is None else [(position, left)])

    def twin_acknowledge(self, position: Position) -> None:
        if not self.twin.outside(self.entries[position]):
            self.twin.acknowledge(self.entries[position])

    def claim(self, ranges: list, partial: list[tuple[Position, int]] = []) -> None:  # type: ignore[type-arg]  # noqa: B006
        assert self.progress is not None
        partials: list[PartialClaim] = self.index.partial_claims(partial)
        delta = self.progress.claim(self.index.claims(ranges), partials)
        if delta is not None:
            self.cursor.attach(encode_state(delta))
            self.deltas.append(delta)

    @property
    def deltas(self) -> list[SubscriptionProgress]:
        return self.network.deltas.setdefault(self.name, [])

    def seek(self, mark_delete: Position) -> None:
        assert self.progress is not None
        to_end = all(local <= mark_delete for local in self.entries)
        wanted = [entry for entry in self.network.published if self.is_wanted_after_seek(entry, mark_delete, to_end)]
        self.cursor.reset(mark_delete)
        self.progress.reseek(self.name, sought(self.index, self.progress, mark_delete, to_end=to_end))
        twin = Twin(self.progress.epoch, self.progress.starts())
        twin.acknowledged = {
            entry for entry in self.network.published if entry not in wanted and not twin.outside(entry)
        }
        twin.partial = {
            entry: left
            for entry, left in self.twin.partial.items()
            if entry in wanted and entry not in self.entries.values() and not self.is_after(entry, to_end)
        }
        assert not any(map(twin.outside, wanted))
        self.twin = twin
        self.rebuild()
        self.deltas.append(self.progress.copy())

    def is_wanted_after_seek(self, entry: Entry, mark_delete: Position, to_end: bool) -> bool:
        for local, held in self.entries.items():
            if held == entry:
                return local > mark_delete
        if self.is_after(entry, to_end):
            return True
        is_outside = self.twin.outside(entry) and not self.is_in_a_gap(entry, mark_delete, to_end)
        return not is_outside and entry not in self.twin.acknowledged

    def is_in_a_gap(self, entry: Entry, mark_delete: Position, to_end: bool) -> bool:
        """Return whether the log lacks an entry between two that it has, the second one after the new position."""
        cluster, position = entry
        held = [(local, origin) for local, (source, origin) in self.entries.items() if source == cluster]
        reached = [origin for local, origin in held if local <= mark_delete]
        reached += [self.before[cluster]] if cluster in self.before else []
        behind = [origin for local, origin in held if local > mark_delete]
        return not to_end and bool(behind) and max(reached, default=min(behind)) < position < max(behind)

    def is_after(self, entry: Entry, to_end: bool) -> bool:
        """Return whether an entry that is not held counts as after the new position: it has yet to arrive."""
        cluster, position = entry
        held = [origin for source, origin in self.entries.values() if source == cluster]
        held += [self.before[cluster]] if cluster in self.before else []
        return not to_end and bool(held) and position > max(held)

    def take(self, effects: LocalEffects) -> None:
        newly = self.cursor.acknowledge_ranges(effects.ranges)
        for position, remaining in effects.partial:
            newly += self.cursor.acknowledge_batch(position, remaining)
        self.claim(newly)

    # --- progress --------------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        for incoming, twin in zip(decode_marker(message.payload).states, message.twins, strict=True):
            if self.progress is None:
                self.subscribe(Position(1, -1))
                self.progress = incoming.copy()
                self.twin = deepcopy(twin)
                self.rebuild()
                continue
            outcome = self.progress.merge(incoming)
            self.twin.merge(twin)
            if outcome.changed:
                self.cursor.attach(encode_state(incoming))
            if outcome.rebuild:
                self.rebuild()
            elif outcome.kind is Kind.MERGED:
                self.take(effects_of_merge(self.index, outcome))

    def rebuild(self) -> None:
        assert self.progress is not None
        effects = effects_of_all(self.index, self.progress)
        self.cursor.reset(Position(1, -1), effects.ranges, effects.partial)

    def flush(self) -> None:
        """Write, and publish after the write is durable."""
        twin, deltas = deepcopy(self.twin), self.deltas
        self.network.deltas[self.name] = []

        def durable(error: object) -> None:
            assert error is None
            self.durable_twin = twin
            for delta in deltas:
                self.network.send(self, delta, twin)

        self.cursor.flush(durable)

    def crash(self) -> None:
        if self.progress is None:
            return
        self.store.crash()
        self.network.deltas[self.name] = []
        self.index = OriginIndex(self.name, self.before)
        for local, annotation in self.runs:
            if annotation:
                origin = decode_annotation(annotation)
                for first, count, floor in origin.extents:
                    self.index.append(origin.cluster, first, count, local, floor)
            else:
                self.index.append(self.name, local, 1, local)
        self.cursors = CursorStore(self.store, self.metadata, "persistent://a/b/c", self.log)
        (self.cursor,) = filter(None, self.cursors.open_all())
        self.progress = at_once(restoring(self.cursor.attachments))
        self.cursor.checkpoint_attachment = self.state_bytes
        self.twin = deepcopy(self.durable_twin)
        assert self.progress is not None
        self.take(effects_of_all(self.index, self.progress))  # entries that arrived after the last record was written

    # --- checks ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for local, (cluster, position) in self.entries.items():
            assert self.index.origin_of(local) == (cluster, position)
            assert self.index.local_of(cluster, position) == local
        if self.progress is None:
            return
        twin = self.twin
        assert self.progress.epoch == twin.epoch
        assert self.progress.starts() == twin.starts
        for entry in self.network.published:
            cluster, position = entry
            origin = self.progress.origin(cluster)
            if not twin.outside(entry):
                assert (position in origin.acknowledged) == (entry in twin.acknowledged), (self.name, entry)
                assert origin.partial.get(position) == twin.partial.get(entry), (self.name, entry)
        for local, entry in self.entries.items():
            done = twin.outside(entry) or entry in twin.acknowledged
            assert self.cursor.state.is_deleted(local) == done, (self.name, local, entry)
            if not done:
                assert self.cursor.state.remaining(local) == twin.partial.get(entry), (self.name, local)


class ClusterNetwork:
    """All clusters, and the markers in transit."""

    def __init__(self, names: str) -> None:
        self.published: list[Entry] = []
        self.deltas: dict[str, list[SubscriptionProgress]] = {}
        self.messages: list[Message] = []
        self.clusters = {name: Cluster(name, self, number) for number, name in enumerate(names)}

    def send(self, source: Cluster, state: SubscriptionProgress, twin: Twin, bytes_max: int = 150) -> None:
        """Send a state to all others in small parts, each with the corresponding part of the reference ``twin``."""
        for payload in encode_markers(source.name, [state], bytes_max=bytes_max):
            meant = [self.meaning(part, twin) for part in decode_marker(payload).states]
            self.messages += [Message(name, payload, meant) for name in self.clusters if name != source.name]

    def meaning(self, part: SubscriptionProgress, twin: Twin) -> Twin:
        """Return the entries that a part acknowledges; check them against the sender's reference if the epoch is the
        same.
        """
        meant = Twin(part.epoch, part.starts())
        for entry in self.published:
            origin = part.origin(entry[0])
            if entry[1] in origin.acknowledged:
                assert part.epoch != twin.epoch or entry in twin.acknowledged or twin.outside(entry), entry
                meant.acknowledged.add(entry)
            left = origin.partial.get(entry[1])
            if left is not None:
                meant.partial[entry] = left
        return meant

    def deliver(self, message: Message) -> None:
        self.clusters[message.target].receive(message)

    def replicate(self, source: Cluster, target: Cluster, begin: int, count: int, *, link_start: bool) -> None:
        """Send own entries meant for ``target`` from index ``begin``, as a link does after a restart."""
        own = [position for cluster, position in self.published if cluster == source.name]
        meant = [position for position in own if target.name in source.targets[position]]
        for position in meant[begin : begin + count]:
            before = [other for other in meant if other < position]
            floors = [other for other in own if other < position]
            origin = Origin(
                source.name,
                position,
                previous=before[-1] if before else EARLIEST,
                floor=floors[-1] if floors else EARLIEST,
                link_start=link_start,
            )
            if link_start and before and floors[-1] == before[-1]:
                origin = Origin(source.name, position, before[-1], before[-1], link_start=True)
            if target.offer(origin) is Verdict.GAP:
                return

    def check(self) -> None:
        for cluster in self.clusters.values():
            cluster.check()
