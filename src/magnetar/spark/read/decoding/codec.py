"""The interface of the codecs of all schema types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from magnetar.schema.info import SchemaInfo

    Value = Any
    Decode = Callable[[bytes], Value]


class Codec(ABC):
    """Decodes payloads of one schema type to values of one Spark type."""

    @property
    @abstractmethod
    def kind(self) -> DataType:
        """The type of the values. All fields in it may be null."""

    @abstractmethod
    def decoder(self, written: SchemaInfo) -> Decode:
        """Return the function that decodes payloads that were written with a schema of the same type.

        It raises any Exception for a payload that does not match the schema.
        """


def unsupported(what: str) -> ConfigurationError:
    """Return the error for a schema that cannot be decoded."""
    return ConfigurationError(f"decode=true: {what}\nhint: without decode, the column value has the payloads as bytes")
