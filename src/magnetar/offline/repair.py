"""Repairs of topics whose data is damaged: what each gives up, and the metadata that carries it out.

A repair changes metadata only, so that the topic opens again. It never guesses: what cannot be read is given up, and
named. Ledgers that nothing names any more stay in the log as orphans. No message id and no origin position is used
again: a shortened ledger stays closed, and the store gives every new ledger a higher id.
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
from magnetar.broker.publish.sequence_ids import SequenceIds
from magnetar.broker.subscription.names import DEDUPLICATION_CURSOR
from magnetar.cursor.cursor import Cursor, CursorHome
from magnetar.cursor.store import NO_LEDGER
from magnetar.geo.progress.codec import restore_state
from magnetar.ledger.agreement import LOST_PROPERTY, keep_loss_boundaries, keep_unlisted, loss_boundaries, shorten
from magnetar.ledger.deletions import note_of
from magnetar.ledger.managed_ledger import ManagedLedger, ManagedLedgerConfig
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from magnetar.base.names import TopicName
    from magnetar.cursor.state import PositionSpace
    from magnetar.ledger.read_only import ReadOnlyLedgerStore
    from magnetar.ledger.segments.index import LogIndex
    from magnetar.metadata.store import MetadataStore, Versioned

UNREADABLE = (StorageError, ValueError, KeyError, TypeError, AttributeError, AssertionError)
"""Errors of decoding."""

_PROPERTIES: dict[str, tuple[Callable[[str], object], str]] = {
    "pulsar.topic.epoch": (int, "an exclusive producer that was fenced out may publish again"),
    "magnetar.origins": (
        lambda text: {key: Position.parse(value) for key, value in json.loads(text).items()},
        "entries of other clusters that were trimmed here may be stored again",
    ),
    "magnetar.returned": (
        lambda text: [Position.parse(each) for each in json.loads(text)],
        "entries that this cluster published before it lost its data may be stored again",
    ),
    "magnetar.tombstones": (json.loads, "subscriptions that were deleted may come back from other clusters"),
    "magnetar.replication.off": (json.loads, "subscriptions whose replication was switched off are replicated again"),
    LOST_PROPERTY: (int, "it is no longer known that the topic may lack entries"),
    "magnetar.skipped": (json.loads, "links stop again at the damaged entries that they were let past"),
}
"""The properties that a topic decodes when it is loaded, and what is lost without each."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair."""

    topic: str | None
    """None: it concerns ledgers of no known topic."""
    action: str
    gives_up: str
    puts: tuple[Put, ...]


class _Planned:
    """The metadata as it will be; only read."""

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
    """Return the repairs that let every topic open; nothing is changed."""
    planner = _Planner(metadata, store, index)
    return [repair for name in topics for repair in planner.topic(name)]


def deletion_of(ledger_ids: Sequence[int], size_bytes: int) -> Repair:
    """Return the repair that deletes at least one ledger that nothing lists; the next start carries it out."""
    named = ", ".join(map(str, ledger_ids))
    return Repair(
        None,
        "delete ledgers that nothing lists",
        f"{len(ledger_ids)} ledgers with {size_bytes} bytes of entries: {named}",
        (Put(note_of(ledger_ids), json.dumps(list(ledger_ids)).encode()),),
    )


def values_before(metadata: MetadataStore, repairs: Sequence[Repair]) -> Iterator[tuple[str, bytes]]:
    """Yield what the repairs replace, by path."""
    for put in (put for repair in repairs for put in repair.puts):
        found = metadata.get(put.path)
        if found is not None:
            yield put.path, found.value


def carry_out(metadata: MetadataStore, repairs: Sequence[Repair]) -> None:
    """Carry the repairs out, all in one transaction."""
    metadata.put_many([put for repair in repairs for put in repair.puts])


class _Planner:
    """Looks at one topic after the other."""

    def __init__(self, metadata: MetadataStore, store: ReadOnlyLedgerStore, index: LogIndex) -> None:
        self._metadata = metadata
        self._planned = _Planned(metadata)
        self._store = store
        self._index = index
        self._loss_boundaries = loss_boundaries(metadata)
        """Those that are stored, and what was planned: other clusters may hold the entries that are given up."""

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
        """Open the topic's log as it will be."""
        self._planned.puts = {put.path: put for repair in found for put in repair.puts}
        metadata = cast("MetadataStore", self._planned)  # opening only reads
        return ManagedLedger.open(self._store, metadata, name, ManagedLedgerConfig(), SystemClock())

    # -- the list of ledgers ------------------------------------------------------------------------------------

    def _list(self, name: TopicName, path: str, value: bytes) -> list[Repair]:
        """Return the repair of a topic's list of ledgers, if it needs one."""
        try:
            stored: dict[str, Any] = json.loads(value)
            last = Position.parse(stored["lastPosition"])
            lost = shorten(stored, {each: found.length for each, found in self._index.ledgers.items()})
            properties = dict(stored["properties"])
        except UNREADABLE as error:
            return [self._rebuilt(name, path, error)]
        dropped = [key for key in properties if not _is_readable(key, properties[key])]
        if not lost and not dropped:
            return []
        gives_up = [f"{end.entry_id - first.entry_id + 1} entries, {first} to {end}" for first, end in lost]
        gives_up += [f"{key}: {_PROPERTIES[key][1]}" for key in dropped]
        # What is lost was acknowledged by some cursors, and stays used.
        stored["lastPosition"] = str(max([last, *(end for _, end in lost)]))
        stored["properties"] = {key: text for key, text in properties.items() if key not in dropped}
        action = "shorten the list of ledgers to what the log holds" if lost else "remove unreadable properties"
        puts = [Put(path, json.dumps(stored).encode())]
        if lost:
            puts.append(self._with_boundaries_after(end.ledger_id for _, end in lost))
        return [Repair(str(name), action, "; ".join(gives_up), tuple(puts))]

    def _rebuilt(self, name: TopicName, path: str, error: Exception) -> Repair:
        """Make a list anew from the ledgers that the topic's own subscriptions and summaries name."""
        positions = self._named_by(path)
        ids = sorted({each.ledger_id for each in positions if self._length(each.ledger_id)})
        ledgers = [{"ledgerId": each, "createdAt": 0, "closedAt": None, "entries": self._length(each)} for each in ids]
        stored = {"ledgers": ledgers, "lastPosition": str(max(positions, default=EARLIEST)), "properties": {}}
        kept = f"ledgers {', '.join(map(str, ids))} are kept" if ids else "no ledger is kept"
        gives_up = (
            f"the list of ledgers cannot be read ({error!r}): entries in ledgers that no subscription of the topic "
            f"names ({kept}), and all properties of the topic"
        )
        boundaries = self._with_boundaries_after(ids)
        puts = (Put(path, json.dumps(stored).encode()), keep_unlisted(self._index.ledgers), boundaries)
        return Repair(str(name), "make the list of ledgers anew", gives_up, puts)

    def _with_boundaries_after(self, ledger_ids: Iterable[int]) -> Put:
        """Have no acknowledgement go across the ends of these ledgers: entries may be missing behind them."""
        self._loss_boundaries += [ledger_id + 1 for ledger_id in ledger_ids]
        return keep_loss_boundaries(self._loss_boundaries)

    def _named_by(self, path: str) -> list[Position]:
        """Return positions that were the topic's for certain: cursors and summaries of origins name them."""
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

    def _length(self, ledger_id: int) -> int:
        found = self._index.ledgers.get(ledger_id)
        return found.length if found is not None else 0

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
                restore_state(cursor.attachments)
        except UNREADABLE as error:
            return _reset(topic, name, (path, value), keep_unlisted(self._index.ledgers), error)
        return None

    def _recovered(self, name: str, space: PositionSpace, path: str, value: dict[str, Any]) -> Cursor:
        return Cursor.recover(CursorHome(self._store, self._metadata, path), name, space, value)


class _NoLog:
    """The positions of a log of which nothing is known: every position is an entry's."""

    def next_position(self, position: Position) -> Position:
        return Position(position.ledger_id, position.entry_id + 1)

    def previous_position(self, position: Position) -> Position:
        return Position(position.ledger_id, position.entry_id - 1)

    def count(self, after: Position, through: Position) -> int:
        return int(after < through)


def _reset(topic: TopicName, name: str, stored: tuple[str, dict[str, Any]], kept: Put, error: Exception) -> Repair:
    """Send a cursor back to where it began; its records, if there are any, are deleted when the broker starts."""
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
    puts = [Put(path, json.dumps(reset).encode()), kept]
    ledger_id = value.get("cursorsLedgerId")
    if isinstance(ledger_id, int) and ledger_id >= 0:
        puts.append(Put(note_of([ledger_id]), json.dumps([ledger_id]).encode()))
    gives_up = (
        f"the cursor {name} cannot be read ({error}): everything after {began} that the log holds is delivered or sent "
        "again; replication of the subscription is off until a client or an operator asks for it"
    )
    return Repair(str(topic), f"reset {name} to {began}, where it began", gives_up, tuple(puts))


def _is_readable(key: str, text: str) -> bool:
    if key not in _PROPERTIES:
        return True
    try:
        _PROPERTIES[key][0](text)
    except UNREADABLE:
        return False
    return True
