"""Assembly of chunks that repeat, restart or lack a predecessor."""

from __future__ import annotations

import pytest

from magnetar.base.position import Position
from magnetar.sim.checks.model import Entry
from magnetar.sim.chunks import Assembler


def chunk(cluster: str, chunk_id: int) -> Entry:
    text = "p-0" if chunk_id == 2 else f"p-0.{chunk_id}"
    return Entry(text, cluster, Position(1, chunk_id), members=1, chunk_id=chunk_id, chunks=3)


@pytest.mark.parametrize(
    ("came", "is_whole", "is_broken"),
    [
        ("e0 e1 e2", True, False),
        ("e0 e1 e1 e2", True, False),
        ("e0 e1 j0 j1 j2", True, False),
        ("e0 j0 e1 j1 j2", True, False),
        ("e0 e1 j0 e2", False, True),
        ("e1 e2", False, False),
        ("e0 e2", False, False),
        ("e1 e2 e0", False, False),
        ("e1 e2 e0 e1 e2", True, False),
    ],
)
def test_a_message_is_whole_once_its_chunks_came_in_order(came: str, *, is_whole: bool, is_broken: bool) -> None:
    assembler = Assembler()
    whole = [assembler.add(chunk(each[0], int(each[1]))) for each in came.split()]
    assert any(whole) == is_whole
    assert bool(assembler.broken()) == is_broken


def test_a_message_without_chunks_is_none_of_them() -> None:
    assert not Assembler().add(Entry("p-0", "ewr", Position(1, 0), members=1))
