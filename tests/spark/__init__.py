"""Replication on Spark between fake clusters."""
