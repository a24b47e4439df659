"""Replication of entries between clusters on Apache Spark; `replicate` runs it."""
