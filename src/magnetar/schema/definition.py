"""The interface of the definitions of all schema types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.schema.strategy import SchemaCompatibilityStrategy


class Definition(ABC):
    """A parsed definition."""

    @property
    def fingerprint(self) -> str | None:
        """Equal for equivalent definitions; None if only equal bytes are equivalent."""
        return None

    @property
    def is_union(self) -> bool:
        """Whether this is an Avro definition whose outermost type is a union."""
        return False

    @abstractmethod
    def conflict(self, old: Definition, strategy: SchemaCompatibilityStrategy) -> str | None:
        """Return the reason why this definition may not follow ``old``, None if it may."""
