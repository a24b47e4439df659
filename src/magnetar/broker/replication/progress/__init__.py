"""Exact progress of a topic: progress links between brokers, their markers, and tombstones of deletions."""
