"""The result of one measurement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures by row, and details for the JSON file."""

    figures: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
