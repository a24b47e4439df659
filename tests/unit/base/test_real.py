"""The real file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.real import SystemFile

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
BLOCK = 512
"""Bytes per block in ``stat``."""


def test_room_is_set_aside_without_a_change_of_the_length_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = SystemFile(path)
    file.write([b"header"])
    try:
        file.set_aside(4 * MIB)
    except OSError as error:
        pytest.skip(f"this file system sets nothing aside: {error}")
    assert (file.size(), path.stat().st_blocks * BLOCK >= 4 * MIB) == (6, True)
    file.write([b" and", b" more"])
    file.truncate(file.size())
    assert (path.read_bytes(), path.stat().st_blocks * BLOCK < MIB) == (b"header and more", True)
    file.close()


def test_many_parts_are_written_in_order(tmp_path: Path) -> None:
    file = SystemFile(tmp_path / "file")
    parts = [b"%d," % number for number in range(5000)]
    file.write(parts)
    file.close()
    assert (tmp_path / "file").read_bytes() == b"".join(parts)
