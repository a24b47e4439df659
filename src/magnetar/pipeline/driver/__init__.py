"""The driver: the Spark session, its two queries, and the progress of replication."""
