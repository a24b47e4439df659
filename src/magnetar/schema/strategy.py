"""Strategies for the compatibility of a new schema with existing ones."""

from __future__ import annotations

from enum import StrEnum


class SchemaCompatibilityStrategy(StrEnum):
    """Pulsar's strategies.

    *Backward*: the new schema can read old data. *Forward*: the old schema can read new data. *Full*: both.
    """

    UNDEFINED = "UNDEFINED"
    """Not set: the strategy of the next higher level applies."""
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether a new schema is compared with all existing ones, not only with the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def reads_old(self) -> bool:
        """Whether the new schema must be able to read old data."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def reads_new(self) -> bool:
        """Whether the old schema must be able to read new data."""
        return self.value.startswith(("FORWARD", "FULL"))
