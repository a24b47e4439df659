"""A data directory, and ``magnetar check`` for it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.cli.main import main
from tests.storage_faults.data_directory import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    asyncio.run(write(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def run(directory: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    def call(*options: str) -> tuple[int, Any, str]:
        code = main(["check", str(directory), "--output", "json", *options])
        said = capsys.readouterr()
        notes = [text for line in said.err.splitlines() for text in json.loads(line).values()]
        return code, json.loads(said.out), "".join(f"{text}\n" for text in notes)

    return call
