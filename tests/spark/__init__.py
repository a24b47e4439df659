"""Replication on Spark between clusters that are played."""
