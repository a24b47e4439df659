"""Distribution of the tests to several processes by pytest-xdist (``make test``).

A *unit* is a set of tests that one process runs in a row: a file, or all files that share the clusters of
``tests/geo``. So these clusters and their Spark start once.
"""

from __future__ import annotations

SHARED_CLUSTERS = "tests/geo"
"""Directory of the shared clusters. Its unit takes longest, and therefore starts first."""

OWN_CLUSTERS = ("test_metadata_sync.py", "test_rebuilt.py", "test_two_pipelines.py", "test_unequal_limits.py")
"""Files of this directory that use only clusters of their own."""


def unit_of(node_id: str) -> str:
    """Return the unit of a test: its file or SHARED_CLUSTERS."""
    file, _, _ = node_id.partition("::")
    directory, _, name = file.rpartition("/")
    return SHARED_CLUSTERS if directory == SHARED_CLUSTERS and name not in OWN_CLUSTERS else file
