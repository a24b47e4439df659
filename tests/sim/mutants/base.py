"""What a mutant is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Mutant = tuple[Any, str, Callable[[Any], Any]]
"""An owner, the name of its attribute, and what makes the mutant of the original."""
