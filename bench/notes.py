"""What stands below the table: how it was measured, and on what. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from bench.systems import TITLES, System

if TYPE_CHECKING:
    from bench.store import Store

WIDTH = 118

HOW = """\
Figures: median (lowest-highest) of the rounds. Ratio: Magnetar's median divided by Apache Pulsar's. Without a target,
medians within 5 % are even.

Durability is the same on both sides: a receipt follows the sync (journalSyncData=true there and here). One copy of each
entry: one bookie there, one log here. Other settings are the defaults, but for what Apache Pulsar needs to run in one
process (tests/kit/pulsar.py); its virtual machine has -Xmx1500m.

One system runs at a time, the two in turn, round after round, each warmed up by the same load. The client is the same
for both; raw frames are prebuilt, as the official client writes them. CPU is user and system time of the broker's
process. Dispatch from the tail counts publishing, dispatch and acknowledgement together.

Geo-replication: between two of its brokers by Apache Pulsar's own replicator there, by the default `magnetar up` here;
hand-overs of the pipeline, one a minute, are included as they fall. A backlog gathers while the far broker is frozen.

Moves: shared, replicated subscriptions, with PIP-33's snapshots each second there. Repeated are messages whose
acknowledgement had its receipt before the move.
"""


def notes(store: Store, seconds: float) -> str:
    """Return the paragraphs below the table, with the machine and the time that this run took."""
    machine = ", ".join(f"{key} {value}" for key, value in store.machine.items())
    rounds = store.run["rounds"]
    last = (
        f"{TITLES[System.APACHE]} and Magnetar, scale {store.run['scale']}, {rounds} round{'s' * (rounds != 1)}, "
        f"{seconds:.0f} s. Machine: {machine}."
    )
    return f"{HOW}\n{textwrap.fill(last, WIDTH)}\n"
