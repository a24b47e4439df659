"""The type of a mutant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Mutant = tuple[Any, str, Callable[[Any], Any]]
"""An owner, the name of an attribute, and a function from the original value to the mutant."""
