"""Repairs of damaged topics: the metadata changes of each, and the data that it gives up.

A repair changes only metadata, such that the topic can be loaded. It never guesses: unreadable data is given up and
named. Ledgers that are no longer listed stay in the log as orphans. No message id and no origin position is reused: a
shortened ledger stays closed, and every new ledger gets a higher id.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote_plus

from magnetar.base.errors import StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.base.real import SystemClock
from magnetar.broker.loop.slices import at_once
from magnetar.broker.publish.sequence_ids import SequenceIds
from magnetar.cursor.cursor import Cursor
from magnetar.cursor.info import CursorHome
from magnetar.cursor.store import NO_LEDGER, cursor_ledgers
from magnetar.geo.progress.codec import restoring
from magnetar.ledger.agreement import LOST_PROPERTY, keep_loss_boundaries, keep_unlisted, loss_boundaries, shorten
from magnetar.ledger.deletions import note_of
from magnetar.ledger.ledger_list import listed_ledgers
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.resources import Topics, managed_ledger_path
from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import Put
from magnetar.wire.links import DEDUPLICATION_CURSOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from magnetar.base.names import TopicName
    from magnetar.cursor.state import PositionSpace
    from magnetar.ledger.read_only import ReadOnlyLedgerStore
    from magnetar.ledger.segments.index import LogIndex
    from magnetar.metadata.store import MetadataStore, Versioned

UNREADABLE = (StorageError, ValueError, KeyError, TypeError, AttributeError, AssertionError)
"""Errors that decoding of damaged metadata raises."""

_PROPERTIES: dict[str, tuple[Callable[[str], object], str]] = {
    "pulsar.topic.epoch": (int, "an exclusive producer that was fenced may publish again"),
    "magnetar.origins": (
        lambda text: {key: Position.parse(value) for key, value in json.loads(text).items()},
        "entries of other clusters that were trimmed here may be stored twice",
    ),
    "magnetar.returned": (
        lambda text: [Position.parse(each) for each in json.loads(text)],
        "entries that this cluster published before it lost its data may be stored twice",
    ),
    "magnetar.first.ledger": (int, "message ids of the topic's former cluster cannot be told from those given here"),
    "magnetar.former": (
        lambda text: int(json.loads(text)["below"]),
        "message ids that clients got in the topic's former cluster are unknown",
    ),
    "magnetar.tombstones": (json.loads, "other clusters may create deleted subscriptions again"),
    "magnetar.replication.off": (json.loads, "subscriptions whose replication was switched off are replicated again"),
    LOST_PROPERTY: (int, "the stats no longer show that the topic may lack entries"),
    "magnetar.skipped": (json.loads, "links stop again at damaged entries that they had skipped"),
}
"""Properties that a topic decodes when it is loaded, and the consequence of removing each."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair."""

    topic: str | None
    """None for a repair that concerns ledgers of no known topic."""
    action: str
    gives_up: str
    puts: tuple[Put, ...]


class _Planned:
    """Read-only view of the metadata after the planned repairs."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self.puts: dict[str, Put] = {}

    def get(self, path: str) -> Versioned | None:
        found = self._metadata.get(path)
        if found is None or path not in self.puts:
            return found
        return type(found)(self.puts[path].value, found.version, found.modified_ms)


def plan_repairs(
    metadata: MetadataStore, store: ReadOnlyLedgerStore, index: LogIndex, topics: Iterable[TopicName]
) -> list[Repair]:
    """Return the repairs that make every topic loadable, without carrying them out."""
    planner = _Planner(metadata, store, index)
    return [repair for name in topics for repair in planner.topic(name)]


def deletion_of(ledger_ids: Sequence[int], size_bytes: int) -> Repair:
    """Return the repair that deletes unlisted ledgers, at least one. The next start of the broker deletes them."""
    named = ", ".join(map(str, ledger_ids))
    return Repair(
        None,
        "delete ledgers that no topic lists",
        f"{len(ledger_ids)} ledgers with {size_bytes} bytes of entries: {named}",
        (Put(note_of(ledger_ids), json.dumps(list(ledger_ids)).encode()),),
    )


def values_before(metadata: MetadataStore, repairs: Sequence[Repair]) -> Iterator[tuple[str, bytes]]:
    """Yield path and value of the metadata that the repairs replace."""
    for put in (put for repair in repairs for put in repair.puts):
        found = metadata.get(put.path)
        if found is not None:
            yield put.path, found.value


def carry_out(metadata: MetadataStore, repairs: Sequence[Repair]) -> None:
    """Carry out the repairs in one transaction."""
    commit_at_start(metadata, [put for repair in repairs for put in repair.puts])


class _Planner:
    """Plans the repairs of one topic after another."""

    def __init__(self, metadata: MetadataStore, store: ReadOnlyLedgerStore, index: LogIndex) -> None:
        self._metadata = metadata
        self._planned = _Planned(metadata)
        self._store = store
        self._index = index
        self._lengths = {ledger_id: found.length for ledger_id, found in index.ledgers.items()}
        """Number of entries of each ledger in the log."""
        self._loss_boundaries = loss_boundaries(metadata)
        """Stored and planned loss boundaries: other clusters may hold the entries that are given up."""

    def topic(self, name: TopicName) -> list[Repair]:
        path = managed_ledger_path(name)
        stored = self._metadata.get(path)
        if stored is None:
            return []
        found = self._list(name, path, stored.value)
        try:
            log = self._opened(name, found)
        except UNREADABLE as error:
            found = [self._rebuilt(name, path, error)]
            log = self._opened(name, found)
        root = f"{path}/cursors"
        for child in self._metadata.children(root):
            repair = self._cursor(name, log, f"{root}/{child}", unquote_plus(child))
            if repair is not None:
                found.append(repair)
        return found

    def _opened(self, name: TopicName, found: Sequence[Repair]) -> ManagedLedger:
        """Open the log of the topic with the planned metadata."""
        self._planned.puts = {put.path: put for repair in found for put in repair.puts}
        metadata = cast("MetadataStore", self._planned)  # opening a log only reads metadata
        return ManagedLedger.open(self._store, metadata, name, ManagedLedgerConfig(), SystemClock())

    # -- the list of ledgers ------------------------------------------------------------------------------------

    def _list(self, name: TopicName, path: str, value: bytes) -> list[Repair]:
        """Return the repair of a topic's list of ledgers, if it needs one."""
        try:
            stored: dict[str, Any] = json.loads(value)
            last = Position.parse(stored["lastPosition"])
            lost = shorten(stored, self._lengths)
            properties = dict(stored["properties"])
        except UNREADABLE as error:
            return [self._rebuilt(name, path, error)]
        dropped = [key for key in properties if not _is_readable(key, properties[key])]
        if not lost and not dropped:
            return []
        gives_up = [f"{end.entry_id - first.entry_id + 1} entries, {first} to {end}" for first, end in lost]
        gives_up += [f"{key}: {_PROPERTIES[key][1]}" for key in dropped]
        # Cursors may have acknowledged lost entries, whose positions stay in use.
        stored["lastPosition"] = str(max([last, *(end for _, end in lost)]))
        stored["properties"] = {key: text for key, text in properties.items() if key not in dropped}
        action = "shorten the list of ledgers to the content of the log" if lost else "remove unreadable properties"
        puts = [Put(path, json.dumps(stored).encode())]
        if lost:
            puts.append(self._with_boundaries_after(end.ledger_id for _, end in lost))
        return [Repair(str(name), action, "; ".join(gives_up), tuple(puts))]

    def _rebuilt(self, name: TopicName, path: str, error: Exception) -> Repair:
        """Rebuild the list from the ledgers that the topic's subscriptions and summaries name."""
        positions = self._named_by(path)
        ids = sorted({each.ledger_id for each in positions if self._lengths.get(each.ledger_id, 0)})
        ledgers = [
            {"ledgerId": each, "createdAt": 0, "closedAt": None, "entries": self._lengths.get(each, 0)} for each in ids
        ]
        stored = {"ledgers": ledgers, "lastPosition": str(max(positions, default=EARLIEST)), "properties": {}}
        kept = f"ledgers {', '.join(map(str, ids))} are kept" if ids else "no ledger is kept"
        gives_up = (
            f"the list of ledgers cannot be read ({error!r}): entries in ledgers that no subscription of the topic "
            f"names ({kept}), and all properties of the topic"
        )
        boundaries = self._with_boundaries_after(ids)
        puts = (Put(path, json.dumps(stored).encode()), keep_unlisted(self._index.ledgers), boundaries)
        return Repair(str(name), "rebuild the list of ledgers", gives_up, puts)

    def _with_boundaries_after(self, ledger_ids: Iterable[int]) -> Put:
        """Place loss boundaries after these ledgers, since entries may be missing there."""
        self._loss_boundaries += [ledger_id + 1 for ledger_id in ledger_ids]
        return keep_loss_boundaries(self._loss_boundaries)

    def _named_by(self, path: str) -> list[Position]:
        """Return positions that certainly belong to the topic: cursors and summaries of origins name them."""
        named = [Position(int(each), -1) for each in self._metadata.children(f"{path}/origins") if each.isdigit()]
        for child in self._metadata.children(f"{path}/cursors"):
            stored = self._metadata.get(f"{path}/cursors/{child}")
            try:
                value = json.loads(stored.value) if stored is not None else {}
                cursor = self._recovered(child, _NoLog(), f"{path}/cursors/{child}", value)
                named += [Position.parse(value["markDeletePosition"]), cursor.state.mark_delete_position]
                named += [cursor.recovered_through] if cursor.recovered_through is not None else []
            except UNREADABLE:
                continue
        return named

    # -- cursors --------------------------------------------------------------------------------------------------

    def _cursor(self, topic: TopicName, log: ManagedLedger, path: str, name: str) -> Repair | None:
        """Return the repair of a cursor that cannot be read."""
        stored = self._metadata.get(path)
        if stored is None:
            return None
        value: dict[str, Any] = {}
        try:
            value = dict(json.loads(stored.value))
            if value.get("deleted"):
                return None
            cursor = self._recovered(name, log, path, value)
            if name == DEDUPLICATION_CURSOR:
                SequenceIds().load(cursor.attachments, 0)
            else:
                at_once(restoring(cursor.attachments))
        except UNREADABLE as error:
            puts = [keep_unlisted(self._index.ledgers), *self._deletion(path, value.get("cursorsLedgerId"))]
            return _reset(topic, name, (path, value), puts, error)
        return None

    def _deletion(self, path: str, ledger_id: object) -> list[Put]:
        """Return the deletion of the records of the cursor at ``path``, if the damaged value certainly names them."""
        if not isinstance(ledger_id, int) or ledger_id < 0:
            return []
        found = self._index.ledgers.get(ledger_id)
        if (found is not None and found.entries_bytes) or ledger_id in self._named_besides(path):
            return []  # a topic's entries, or the records of another cursor
        return [Put(note_of([ledger_id]), json.dumps([ledger_id]).encode())]

    def _named_besides(self, path: str) -> Iterator[int]:
        """Yield the ledgers that readable records of topics and cursors name, except for the one at ``path``."""
        for topic in Topics(self._metadata).all():
            stored = self._metadata.get(managed_ledger_path(topic))
            yield from (listed_ledgers(stored.value) or ()) if stored is not None else ()
            cursors = cursor_ledgers(self._metadata, topic)
            yield from (found for other, found in cursors if other != path and found is not None)

    def _recovered(self, name: str, space: PositionSpace, path: str, value: dict[str, Any]) -> Cursor:
        return Cursor.recover(CursorHome(self._store, self._metadata, path), name, space, value)


class _NoLog:
    """Positions of an unknown log, in which every position has an entry."""

    def next_position(self, position: Position) -> Position:
        return Position(position.ledger_id, position.entry_id + 1)

    def previous_position(self, position: Position) -> Position:
        return Position(position.ledger_id, position.entry_id - 1)

    def count(self, after: Position, through: Position) -> int:
        return int(after < through)


def _reset(
    topic: TopicName, name: str, stored: tuple[str, dict[str, Any]], along_with: Sequence[Put], error: Exception
) -> Repair:
    """Reset a cursor to its first position; a starting broker deletes its records."""
    path, value = stored
    began = EARLIEST
    with suppress(*UNREADABLE):
        began = Position.parse(value["markDeletePosition"])
    properties = value.get("cursorProperties")
    reset = {
        "cursorsLedgerId": NO_LEDGER,
        "markDeletePosition": str(began),
        "cursorProperties": properties if isinstance(properties, dict) else {},
    }
    gives_up = (
        f"the cursor {name} cannot be read ({error}): all entries after {began} are delivered or sent again; the "
        "subscription is not replicated until a client or an operator requests it"
    )
    puts = (Put(path, json.dumps(reset).encode()), *along_with)
    return Repair(str(topic), f"reset {name} to {began}, its first position", gives_up, puts)


def _is_readable(key: str, text: str) -> bool:
    if key not in _PROPERTIES:
        return True
    try:
        _PROPERTIES[key][0](text)
    except UNREADABLE:
        return False
    return True
