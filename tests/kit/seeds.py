"""Seeds of random tests, of which ``make test`` runs some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def seeds(count: int, of_all: int) -> list[ParameterSet]:
    """Return the seeds below ``of_all``; those from ``count`` on are marked as long."""
    return [pytest.param(seed, marks=() if seed < count else pytest.mark.long) for seed in range(of_all)]
