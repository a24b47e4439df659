"""Compatibility of a schema with the existing ones of a topic, by Pulsar's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import IncompatibleSchemaError
from magnetar.schema.strategy import SchemaCompatibilityStrategy as Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.schema.parsing import ParsedSchema

_CONSUMERS_READ_LATEST: Final = (Strategy.BACKWARD, Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL)
"""Strategies that only require that a consumer can read data of the latest schema."""


def strategy_for_consumers(strategy: Strategy) -> Strategy:
    """Return the strategy for the schemas of consumers."""
    return Strategy.BACKWARD if strategy in _CONSUMERS_READ_LATEST else strategy


def check(existing: Iterable[ParsedSchema], new: ParsedSchema, strategy: Strategy) -> None:
    """Raise IncompatibleSchemaError unless ``new`` may follow each of the ``existing`` schemas."""
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return
    for each in existing:
        reason = new.conflict(each, strategy)
        if reason is not None:
            message = f"{new.info.type.name} schema is incompatible under the strategy {strategy}: {reason}"
            raise IncompatibleSchemaError(message)
