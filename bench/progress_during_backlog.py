"""Age of progress during the replication of a backlog: three clusters of ``magnetar up`` with default settings.

A backlog of unbatched messages of 1 kB waits in ewr when its namespace is replicated to jfk and lga. Until jfk has all
of it, the official client acknowledges messages of another topic one by one in ewr, and the backlog in jfk is polled
every 5 ms until it reflects the acknowledgement. The time in between is the age; up to 100 ms of it are the client's
grouping of acknowledgements. The table goes to standard output, followed by one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.geo.backlog import MESSAGE_BYTES, ages_during_backlog
from tests.kit.clusters import Up
from tests.kit.measure import describe_machine, percentiles

GOAL_MAX_S = 1.0
"""The project's target in seconds."""


def main() -> int:
    """Run the benchmark; return 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000, help="messages in the backlog")
    parser.add_argument(
        "--data", type=Path, default=Path("build/bench/progress_during_backlog"), help="directory of all data"
    )
    options = parser.parse_args()
    shutil.rmtree(options.data, ignore_errors=True)
    options.data.mkdir(parents=True)
    machine = describe_machine(options.data)
    with Up(options.data) as up:
        up.make_namespace("bench/progress")
        started = time.monotonic()
        ages = ages_during_backlog(up, "bench/progress", options.messages)
        took = time.monotonic() - started
    found = {
        "figure": "progress_during_backlog",
        "machine": machine,
        "settings": "defaults: receipt after fdatasync (journalSyncData=true), progress interval 50 ms",
        "messages": options.messages,
        "message_bytes": MESSAGE_BYTES,
        "acknowledgements_measured": len(ages),
        "seconds_with_publishing": round(took, 1),
        "milliseconds": {key: round(value * 1000, 1) for key, value in percentiles(ages).items()},
        "goal_max_ms": GOAL_MAX_S * 1000,
    }
    table = Table("milliseconds", *found["milliseconds"], "goal", title=f"backlog of {options.messages:,} messages")
    table.add_row("progress age", *map(str, found["milliseconds"].values()), f"max < {GOAL_MAX_S * 1000:g}")
    console = Console(width=110)
    console.print(table)
    console.print("machine: " + ", ".join(f"{key} {value}" for key, value in machine.items()), highlight=False)
    print(json.dumps(found))
    return int(max(ages) >= GOAL_MAX_S)


if __name__ == "__main__":
    sys.exit(main())
