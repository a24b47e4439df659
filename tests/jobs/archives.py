"""The commands of archives, run on a broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.broker import Broker
    from tests.kit.one_process import OneProcess

TIMEOUT_S = 200.0

SETTINGS = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1, "brokerDeduplicationEnabled": True}
"""Settings of a broker that keeps all messages, and to which archives can be restored."""


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    status: int
    report: dict[str, Any]
    log: str


def run(commands: OneProcess, broker: Broker, *arguments: str, work: Path) -> Done:
    """Run ``magnetar pipeline`` with ``arguments`` in the process of ``commands``."""
    done = commands.run(command(broker, *arguments, work=work), TIMEOUT_S)
    return Done(done.status, json.loads(done.output) if done.output else {}, done.log)


def command(broker: Broker, *arguments: str, work: Path) -> list[str]:
    """Return the arguments of ``magnetar``."""
    verb, *rest = arguments
    options = ["--cluster", f"{broker.cluster}={broker.admin_url}", "--master", "local[2]", "--output", "json"]
    return ["pipeline", verb, *options, "--work-dir", str(work / "work"), *rest]


def rows(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of an archive as another reader of Parquet finds them, in the order of the log."""
    if not list(directory.glob("topic=*")):
        return []
    found = ds.dataset(directory, format="parquet", partitioning="hive").to_table()
    order = [("topic", "ascending"), ("__topic", "ascending"), ("__ledgerId", "ascending"), ("__entryId", "ascending")]
    sorted_rows: list[dict[str, Any]] = found.sort_by([*order, ("__batchIndex", "ascending")]).to_pylist()
    return sorted_rows
