"""The work of the tasks: what they read, and what they make of entries."""

from __future__ import annotations

import pytest

from magnetar.base.position import Position
from magnetar.jobs.audit import scanning
from magnetar.jobs.audit.frames import joined
from magnetar.jobs.audit.runs import runs_of
from magnetar.jobs.audit.scanning import UnknownOriginError
from magnetar.jobs.content import digest
from magnetar.jobs.pieces import Piece
from magnetar.spark.read.batches.messages import Stored
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb

TOPIC = "persistent://public/default/orders"
WHOLE = Piece("jfk", TOPIC, Position(7, 0), Position(7, 9), 9, 900)


def entry(number: int, **fields: object) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=9, **fields)  # type: ignore[arg-type]
    return build_entry(metadata, b"x")


def stored(number: int, data: bytes) -> Stored:
    return Stored(Position(7, number), parse_metadata(data), data)


def test_entries_become_runs_by_origin_targets_and_starts_of_links() -> None:
    copied = [
        stamp(entry(0), Origin("ewr", Position(3, 4))),
        stamp(entry(1), Origin("ewr", Position(3, 5))),
        stamp(entry(2, replicate_to=["lga", "jfk"]), Origin("ewr", Position(3, 6))),
        stamp(entry(3), Origin("ewr", Position(3, 9), link_start=True)),
    ]
    log = [stored(number, data) for number, data in enumerate([*copied, entry(4), entry(5)])]
    rows = runs_of(scanning._read(WHOLE, log, digest)).to_pylist()
    names = ("cluster", "origin", "origin_ledger", "origin_entry", "ledger", "entry", "count", "targets", "link_start")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("jfk", "ewr", 3, 4, 7, 0, 2, "", False),
        ("jfk", "ewr", 3, 6, 7, 2, 1, "jfk,lga", False),
        ("jfk", "ewr", 3, 9, 7, 3, 1, "", True),
        ("jfk", "jfk", 7, 4, 7, 4, 2, "", False),
    ]


@pytest.mark.parametrize("value", [None, "3", "x:y"])
def test_a_replicated_entry_without_its_position_ends_the_audit(value: str | None) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=9, replicated_from="ewr")
    if value is not None:
        metadata.properties.add(key="__MSG_PROP_REPL_SOURCE_POSITION", value=value)
    with pytest.raises(UnknownOriginError, match=r"orders in jfk: the entry 7:3 was replicated from ewr without"):
        scanning._read(WHOLE, [stored(3, build_entry(metadata, b""))], digest)


def test_runs_that_follow_each_other_are_read_at_once() -> None:
    def row(entry: int, count: int, cluster: str = "jfk") -> dict[str, object]:
        return {"cluster": cluster, "topic": TOPIC, "ledger": 7, "entry": entry, "count": count}

    found = list(joined([row(0, 4), row(4, 2), row(7, 1), row(8, 1, "lga")]))
    assert [(piece.cluster, piece.start.entry_id, piece.end.entry_id, piece.entries) for piece in found] == [
        ("jfk", 0, 6, 6),
        ("jfk", 7, 8, 1),
        ("lga", 8, 9, 1),
    ]
