"""The hostile behaviours, one module for each family. Importing this package registers all of them."""

from tests.hostile.attacks import (
    acknowledging,
    baseline,
    batches,
    chunks,
    connections,
    consuming,
    events,
    forged,
    frames,
    garbage,
    hoards,
    non_persistent,
    producers,
    publishing,
    rest,
    storms,
)

__all__ = [
    "acknowledging",
    "baseline",
    "batches",
    "chunks",
    "connections",
    "consuming",
    "events",
    "forged",
    "frames",
    "garbage",
    "hoards",
    "non_persistent",
    "producers",
    "publishing",
    "rest",
    "storms",
]
