"""The Python data source of the links: a micro-batch is a lease, a partition carries links to one target."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from magnetar.pipeline import limits
from magnetar.pipeline.driver.division import read_division
from magnetar.pipeline.leases import Schedule
from magnetar.pipeline.options import ReplicationOptions
from magnetar.pipeline.rows import SCHEMA_DDL
from magnetar.pipeline.spreading import NO_TRAFFIC, Assignment, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class TargetPartition(InputPartition):
    """A task of a lease: it carries some of the links to one target cluster."""

    assignment: Assignment
    options: ReplicationOptions


def rotated(targets: Sequence[str], lease: int) -> list[str]:
    """Return ``targets`` in the order in which a lease's tasks start: with too few slots, each is first in its turn."""
    first = lease % len(targets)
    return [*targets[first:], *targets[:first]]


class LeaseStreamReader(DataSourceStreamReader):
    """A stream of leases with the offsets ``{"lease": number}``. The clock determines them, not Spark's checkpoint."""

    def __init__(self, options: ReplicationOptions) -> None:
        """Create the reader of the query with the turn in ``options``."""
        self._options = options
        self._schedule = Schedule(options.lease_seconds)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset before all leases."""
        return {"lease": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ANN401, ARG002, N802 - Spark's
        """Wait a while for the next lease, and return it; return ``start`` if none is due."""
        now = time.time()
        wait = min(self._schedule.next_start(self._options.turn, now) - now, limits.LATEST_OFFSET_POLL_SECONDS)
        for pause in (wait, 0.0):
            lease = self._schedule.due(self._options.turn, time.time())
            if lease is not None and lease > start["lease"]:
                return {"lease": lease}
            time.sleep(pause)
        return start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002 - Spark's
        """Return the partitions of each target for the newest lease, and none for Spark's initial offset."""
        if end == self.initialOffset():
            return []
        options, lease = self._options, end["lease"]
        division = read_division(options.division_path, options.parallelism)
        return [
            TargetPartition(Assignment(name, lease, part, buckets), options)
            for name in rotated([cluster.name for cluster in options.clusters], lease)
            for part, buckets in enumerate(spread(division.traffic.get(name, NO_TRAFFIC), division.parallelism))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the sources of the partition's target for the duration of its lease; nothing if that is over."""
        from magnetar.pipeline.reading.reader import LeaseReader  # noqa: PLC0415 - only tasks need it, and it is large

        assert isinstance(partition, TargetPartition)
        if time.time() >= self._schedule.hard_end(partition.assignment.lease):
            return  # The task waited for a slot. The next one must not wait until this one has connected.
        with LeaseReader(partition.assignment, partition.options) as reader:
            yield from reader.rows()


class MagnetarDataSource(DataSource):
    """Entries in transit between Pulsar-compatible clusters, in chunks; see `magnetar.pipeline.rows`."""

    def schema(self) -> str:
        """Return the rows' schema."""
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> LeaseStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Return the reader of the query's leases."""
        return LeaseStreamReader(ReplicationOptions.from_spark(self.options))


def source_named(name: str) -> type[MagnetarDataSource]:
    """Return a data source class for ``spark.readStream.format(name)``. Concurrent queries need a name each.

    Spark has one map of environment variables per registered source, and each query modifies it in a thread of its own
    when it starts. Two concurrent modifications corrupt the map for good: no task of either query can be read any more.
    """

    class Named(MagnetarDataSource):
        @classmethod
        def name(cls) -> str:
            return name

    return Named
