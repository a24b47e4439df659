"""Key/value schemas: structs of a key and a value, each with a codec of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StructField, StructType

from magnetar.base.errors import RemoteProtocolError
from magnetar.schema.key_value import parts_of, split
from magnetar.spark.read.decoding.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.schema.info import SchemaInfo
    from magnetar.spark.read.decoding.codec import Decode, Value

_NAMES = ("key", "value")


class KeyValueCodec(Codec):
    """Payloads with an inline key."""

    def __init__(self, current: SchemaInfo, codec_of: Callable[[SchemaInfo], Codec]) -> None:
        """Decode to the type of ``current``; ``codec_of`` returns the codecs of its parts, and raises for this."""
        self._parts = parts_of(current)
        self._codecs = [codec_of(part) for part in self._parts]

    @property
    def kind(self) -> DataType:
        """See Codec."""
        return StructType([StructField(name, codec.kind) for name, codec in zip(_NAMES, self._codecs, strict=True)])

    def decoder(self, written: SchemaInfo) -> Decode:
        """See Codec. Raises RemoteProtocolError if the key or the value has another type."""
        decoders = []
        for name, codec, current, part in zip(_NAMES, self._codecs, self._parts, parts_of(written), strict=True):
            if part.type is not current.type:
                message = f"the {name} of a version of the schema is {part.type.name}, not {current.type.name}"
                raise RemoteProtocolError(message)
            decoders.append(codec.decoder(part))

        def decode(payload: bytes) -> Value:
            found = zip(_NAMES, decoders, split(payload), strict=True)
            return {name: None if part is None else of_part(part) for name, of_part, part in found}

        return decode
