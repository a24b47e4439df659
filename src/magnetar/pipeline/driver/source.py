"""The Python data source ``magnetar``: a micro-batch is a lease, a partition is a target cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from magnetar.pipeline import limits
from magnetar.pipeline.leases import Schedule
from magnetar.pipeline.options import ReplicationOptions
from magnetar.pipeline.reading.reader import LeaseReader
from magnetar.pipeline.rows import SCHEMA_DDL

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class TargetPartition(InputPartition):
    """One target cluster's share of a lease."""

    target: str
    lease: int
    options: ReplicationOptions


class LeaseStreamReader(DataSourceStreamReader):
    """Offsets are ``{"lease": number}``; Spark's checkpoint of them decides nothing, the clock does."""

    def __init__(self, options: ReplicationOptions) -> None:
        """Serve the query whose turn ``options`` names."""
        self._options = options
        self._schedule = Schedule(options.lease_seconds)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the lease before all leases."""
        return {"lease": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: ANN401, ARG002, N802 - Spark's
        """Return the lease that is due, after waiting a while for it; ``start`` while none is."""
        now = time.time()
        wait = min(self._schedule.next_start(self._options.turn, now) - now, limits.LATEST_OFFSET_POLL_SECONDS)
        for pause in (wait, 0.0):
            lease = self._schedule.due(self._options.turn, time.time())
            if lease is not None and lease > start["lease"]:
                return {"lease": lease}
            time.sleep(pause)
        return start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002 - Spark's
        """One partition per target; only the newest lease counts, and none where Spark only notes the beginning."""
        if end == self.initialOffset():
            return []
        return [TargetPartition(cluster.name, end["lease"], self._options) for cluster in self._options.clusters]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """SourceCluster the sources of the partition's target for the length of its lease."""
        assert isinstance(partition, TargetPartition)
        with LeaseReader(partition.target, partition.lease, partition.options) as reader:
            yield from reader.rows()


class MagnetarDataSource(DataSource):
    """Entries on their way between Pulsar-compatible clusters, in chunks; see `magnetar.pipeline.rows`."""

    def schema(self) -> str:
        """Return the rows' schema."""
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> LeaseStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Return the reader of the query's leases."""
        return LeaseStreamReader(ReplicationOptions.from_spark(self.options))


def source_named(name: str) -> type[MagnetarDataSource]:
    """Return a source for ``spark.readStream.format(name)``. Queries that run at the same time need one each.

    Spark keeps one map of environment variables for a source that is registered, and each query that starts changes
    it, in a thread of its own. A map that two of them change at the same time is broken from then on: no task of
    either can be read any more.
    """

    class Named(MagnetarDataSource):
        @classmethod
        def name(cls) -> str:
            return name

    return Named
