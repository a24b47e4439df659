"""Snapshots of PIP-33: how they are taken, their markers, and the acknowledgements of updates. Pure."""
