from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import StorageError
from magnetar.base.lock import DirectoryLock

if TYPE_CHECKING:
    from pathlib import Path


def test_only_one_holds_a_directory_and_the_other_learns_who(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(StorageError, match=f"in use by process {os.getpid()}\nhint: "):
        DirectoryLock(tmp_path)


def test_a_released_directory_and_one_whose_holder_died_are_free(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    (tmp_path / "lock").write_text("1\n")  # the remains of a killed process
    with DirectoryLock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_directory_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"cannot lock {tmp_path / 'missing'}"):
        DirectoryLock(tmp_path / "missing")
