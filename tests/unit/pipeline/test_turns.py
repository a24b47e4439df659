"""The queries of the driver are restarted after each error."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.errors import AnalysisException

from magnetar.pipeline.driver import replicate
from magnetar.pipeline.driver.replicate import Turn
from magnetar.pipeline.options import ClusterAddress, ReplicationOptions

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_a_query_restarts_after_every_error_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_query(*_: object) -> None:
        message = "the source's schema: MemoryError"
        raise AnalysisException(message)

    monkeypatch.setattr(replicate, "start_query", start_query)
    clusters = tuple(ClusterAddress(name, "", "") for name in ("ewr", "jfk"))
    options = ReplicationOptions(clusters=clusters)
    turn = Turn(cast("SparkSession", None), options, Path("unused"), random.Random(1))
    for restart in (1, 2):
        ended = turn.supervise(restart * 1000.0)
        assert ended is not None
        assert "MemoryError" in ended.reason
        assert turn.restarts == restart
