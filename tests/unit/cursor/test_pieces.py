"""Records above the size of one write: all of their pieces count, or none."""

from __future__ import annotations

import pytest

from magnetar.base.errors import CorruptionError
from magnetar.cursor.cursor_pb2 import CursorRecord, Piece
from magnetar.cursor.limits import CursorLimits
from tests.unit.cursor.fakes import singly
from tests.unit.cursor.support import Setup, same

WRITE_BYTES_MAX = 64


@pytest.fixture
def setup() -> Setup:
    return Setup(CursorLimits(record_bytes_max=WRITE_BYTES_MAX))


def test_no_write_is_larger_than_allowed(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[1:60:3]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[2:60:3]))
    setup.flush(cursor)
    records = setup.records(cursor)
    assert len(records) > 4
    assert max(records) <= WRITE_BYTES_MAX
    assert same(setup.crash(), cursor)


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_record_without_its_last_piece_does_not_count(setup: Setup, pieces: int, checkpoint: bool) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[1:9:2]))
    setup.flush(cursor)
    before = setup.crash()
    cursor.acknowledge_ranges(singly(setup.positions[20:90:2]))
    for position in setup.positions[21:41:2]:
        cursor.acknowledge_batch(position, 0b01, 2)
    (cursor.checkpoint if checkpoint else cursor.flush)(lambda _: None)
    assert len(setup.store.pending) > pieces
    del setup.store.pending[pieces:]
    setup.store.settle()
    recovered = setup.crash()
    assert same(recovered, before)
    for following in (singly(setup.positions[11:15:2]), singly(setup.positions[40:90:3])):
        recovered.acknowledge_ranges(following)
        setup.flush(recovered)
        assert same(setup.crash(), recovered)


def test_pieces_that_do_not_follow_each_other_are_refused(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    assert cursor.ledger_id is not None
    for index in (0, 2):
        piece = CursorRecord(piece=Piece(index=index, count=3, content=b"x")).SerializeToString()
        setup.store.append(cursor.ledger_id, (b"",), lambda _: None, piece)
    setup.store.settle()
    with pytest.raises(CorruptionError, match="piece 2 follows 1"):
        setup.crash()
