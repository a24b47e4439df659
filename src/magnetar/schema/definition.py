"""What the definitions of all types of schemas have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.schema.strategy import SchemaCompatibilityStrategy


class Definition(ABC):
    """A definition that has been read."""

    @property
    def fingerprint(self) -> str | None:
        """Equal for definitions that mean the same; None if only equal bytes do."""
        return None

    @abstractmethod
    def conflict(self, old: Definition, strategy: SchemaCompatibilityStrategy) -> str | None:
        """Return the reason why this definition may not follow ``old``, None if it may."""
