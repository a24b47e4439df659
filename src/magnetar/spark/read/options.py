"""Options of reads, by the names of Pulsar's Spark connector, and of Spark's Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import Field, PlainValidator, model_validator

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark.columns import Unit
from magnetar.spark.options import Options
from magnetar.spark.read.option_values import parse_offsets, parse_times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_BATCHES: Final = ("ending_offsets", "ending_time")
_OF_STREAMS: Final = ("max_bytes_per_trigger", "max_messages_per_trigger")

Offsets = Annotated[Position | dict[str, Position], PlainValidator(parse_offsets)]
"""A position for all topics, or by topic or partition."""

Times = Annotated[int | dict[str, int], PlainValidator(parse_times)]
"""Milliseconds since the epoch for all topics, or by topic or partition."""


class ReadOptions(Options):
    """Options of a read."""

    topic: str = ""
    topics: str = ""
    """Names of topics, separated by commas."""
    topics_pattern: Annotated[str, Field(alias="topicsPattern")] = ""
    """A regular expression for names of topics in one namespace, as ``persistent://public/default/orders-.*``."""
    unit: Unit = Unit.MESSAGE
    """The thing that a row holds."""
    decode: bool = False
    """Whether the values have the type of the topics' schema, instead of bytes."""
    starting_offsets: Annotated[Offsets, Field(alias="startingOffsets")] = EARLIEST
    starting_time: Annotated[Times | None, Field(alias="startingTime")] = None
    """Instead of ``starting_offsets``."""
    ending_offsets: Annotated[Offsets, Field(alias="endingOffsets")] = LATEST
    ending_time: Annotated[Times | None, Field(alias="endingTime")] = None
    predefined_subscription: Annotated[str, Field(alias="predefinedSubscription")] = ""
    """A subscription at whose position a query starts, and which a streaming query moves."""
    fail_on_data_loss: Annotated[bool, Field(alias="failOnDataLoss")] = True
    min_partitions: Annotated[int, Field(alias="minPartitions", ge=1)] = 1
    max_bytes_per_trigger: Annotated[int | None, Field(alias="maxBytesPerTrigger", ge=1)] = None
    """Bytes of entries, as stored, of one batch of a stream."""
    max_messages_per_trigger: Annotated[int | None, Field(alias="maxMessagesPerTrigger", ge=1)] = None
    """Messages of one batch of a stream."""

    @classmethod
    def of_batch(cls, options: Mapping[str, str]) -> Self:
        """Return the options of a batch query; raises as ``of``, also for one of streaming queries only."""
        return cls.of(options)._without(_OF_STREAMS, "streaming queries")  # noqa: SLF001 - of this class

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> Self:
        """Return the options of a streaming query; raises as ``of``, also for one of batch queries only."""
        return cls.of(options)._without(_OF_BATCHES, "batch queries")  # noqa: SLF001 - of this class

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if sum(map(bool, (self.topic, self.topics, self.topics_pattern))) != 1:
            message = "set one of the options topic, topics and topicsPattern"
            raise ValueError(message)
        if self.decode and self.unit is not Unit.MESSAGE:
            message = "decode=true needs unit=message"
            raise ValueError(message)
        for bound in ("starting", "ending"):
            if {f"{bound}_offsets", f"{bound}_time"} <= self.model_fields_set:
                message = f"set one of the options {bound}Offsets and {bound}Time"
                raise ValueError(message)
        return self

    def _without(self, fields: Sequence[str], where: str) -> Self:
        """Return these options; raises ConfigurationError if one of ``fields`` was given."""
        for field in fields:
            if field in self.model_fields_set:
                message = f"option {type(self).model_fields[field].alias} is for {where} only"
                raise ConfigurationError(message)
        return self
