"""The notes below the table about the method and the machine. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from bench.systems import TITLES, System

if TYPE_CHECKING:
    from bench.scale import Scale
    from bench.store import Store

WIDTH = 118

PARAGRAPHS = (
    """Figures: median (lowest-highest) of the rounds. Ratio: Magnetar's median divided by Apache Pulsar's. Without a
    target, medians within 5 % are even. Took: seconds of measuring in all rounds, without starts and warm-ups.""",
    """Durability is the same on both sides: a receipt follows the sync (journalSyncData=true there and here). One copy
    of each entry: one bookie there, one log here. Other settings are the defaults, but for what Apache Pulsar needs to
    run in one process (tests/kit/pulsar.py); its virtual machine has -Xmx1500m.""",
    """One system runs at a time, the two in turn, round after round, each warmed up by the same load. The client is the
    same for both; raw frames are prebuilt, as the official client writes them. CPU is user and system time of the
    broker's process. A backlog is 3 s old, and gathered without a consumer; a burst waits for the permits of one that
    is there. Dispatch from the tail counts publishing, dispatch and acknowledgement together.""",
    """Geo-replication: between two of its brokers by Apache Pulsar's own replicator there, by the default `magnetar up`
    here; hand-overs of the pipeline, one a minute, are included as they fall. A backlog gathers while the far broker is
    frozen.""",
    """A move: all workloads at once, {switch_seconds:g} s of load, shared subscriptions, replicated by PIP-33's
    snapshots each second there. Repeated are messages whose acknowledgement had its receipt before the move.""",
    """On disk: after an orderly stop; Apache Pulsar's journal, of which it keeps the newest files beside its entry
    logs, is counted.""",
    """{theirs} and {ours}, scale: {scale}, rounds: {rounds}, took {seconds:.0f} s. Machine: {machine}.""",
)


def notes(store: Store, scale: Scale, seconds: float) -> str:
    """Return the paragraphs below the table, with the machine and the duration of the run."""
    values = {
        "theirs": TITLES[System.APACHE],
        "ours": TITLES[System.MAGNETAR],
        "switch_seconds": scale.switch_seconds,
        "scale": store.run["scale"],
        "rounds": store.run["rounds"],
        "seconds": seconds,
        "machine": ", ".join(f"{key} {value}" for key, value in store.machine.items()),
    }
    said = [text.format(**values) for text in PARAGRAPHS]
    if scale.caveat:
        said.insert(0, scale.caveat)
    return "\n".join(textwrap.fill(" ".join(text.split()), WIDTH) for text in said) + "\n"
