"""Names in a data directory."""

from __future__ import annotations

from typing import Final

LEDGERS: Final = "ledgers"
"""The directory of the log."""

METADATA: Final = "metadata.sqlite"
"""The metadata store."""
