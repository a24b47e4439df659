"""Batch jobs on Spark over the messages of topics."""
