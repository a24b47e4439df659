from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.real import SystemFiles
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.medium.local import LocalMedium

if TYPE_CHECKING:
    from pathlib import Path


class Watched(SystemFiles):
    """Files of the operating system with a record of created and synced directories, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    def make_directory(self, directory: Path) -> None:
        super().make_directory(directory)
        self.done.append(("made", directory.name))

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        self.done.append(("synced", directory.name))


def test_the_name_of_the_directory_is_durable_before_the_log_is_used(tmp_path: Path) -> None:
    files = Watched()
    run_blocking(LocalMedium(tmp_path / "data" / "ledgers", files).open)
    assert files.done[:2] == [("made", "ledgers"), ("synced", "data")]
