"""Options of the data source, by the names of Pulsar's Spark connector, and of Spark's Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from magnetar.base.errors import ConfigurationError
from magnetar.spark.read.offsets import parse_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping


class Options(BaseModel):
    """Options of reads and writes. Spark's names of options ignore case, so the aliases are in lower case."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    service_url: Annotated[str, Field(alias="service.url")]
    """Broker URL, ``pulsar://host:port``."""
    admin_url: Annotated[str, Field(alias="admin.url")]
    """Admin URL, ``http://host:port``."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the options of ``option(…)``; raises ConfigurationError with the name of the option."""
        try:
            return cls(**{name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK})
        except ValidationError as error:
            raise ConfigurationError("; ".join(map(_problem, error.errors()))) from None


class ReadOptions(Options):
    """Options of a read."""

    topic: str = ""
    topics: str = ""
    """Names of topics, separated by commas."""
    topics_pattern: Annotated[str, Field(alias="topicspattern")] = ""
    """A regular expression for names of topics in one namespace, as ``persistent://public/default/orders-.*``."""
    starting_offsets: Annotated[str, Field(alias="startingoffsets")] = "earliest"
    ending_offsets: Annotated[str, Field(alias="endingoffsets")] = "latest"
    fail_on_data_loss: Annotated[bool, Field(alias="failondataloss")] = True
    min_partitions: Annotated[int, Field(alias="minpartitions", ge=1)] = 1
    max_bytes_per_trigger: Annotated[int | None, Field(alias="maxbytespertrigger", ge=1)] = None
    """Bytes of entries, as stored, of one batch of a stream."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the options; see Options."""
        given = super().of(options)
        parse_offsets("startingOffsets", given.starting_offsets)
        parse_offsets("endingOffsets", given.ending_offsets)
        return given

    @model_validator(mode="after")
    def _check_topics(self) -> Self:
        if sum(map(bool, (self.topic, self.topics, self.topics_pattern))) != 1:
            message = "set one of the options topic, topics and topicsPattern"
            raise ValueError(message)
        return self


_OF_SPARK = ("path",)


def _problem(error: Any) -> str:  # noqa: ANN401 - pydantic's details
    name = ".".join(map(str, error["loc"]))
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"option {name}: {reason}" if name else reason
