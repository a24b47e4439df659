"""Distribution of the tests to several processes by pytest-xdist (``make test``).

A *unit* is a set of tests that one process runs in a row: a file, or all files that share clusters or a Spark, which
start slowly.
"""

from __future__ import annotations

SHARED_CLUSTERS = "tests/geo"
"""Directory of the shared clusters. Its unit takes longest, and therefore starts first."""

SHARED_SPARK = ("tests/jobs", "tests/spark")
"""Directories of which each shares a Spark, or a process in which Spark starts quickly."""

OWN_CLUSTERS = (
    "test_metadata_sync.py",
    "test_migration.py",
    "test_rebuilt.py",
    "test_two_pipelines.py",
    "test_unequal_limits.py",
)
"""Files of SHARED_CLUSTERS that use only clusters of their own."""


def unit_of(node_id: str) -> str:
    """Return the unit of a test: its file, SHARED_CLUSTERS, or one of SHARED_SPARK."""
    file, _, _ = node_id.partition("::")
    directory, _, name = file.rpartition("/")
    is_shared = directory in SHARED_SPARK or (directory == SHARED_CLUSTERS and name not in OWN_CLUSTERS)
    return directory if is_shared else file
