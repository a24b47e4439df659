"""A directory that each user of the machine can enter, unlike those of pytest."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def open_directory() -> Iterator[Path]:
    """Create it for a block."""
    with TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
