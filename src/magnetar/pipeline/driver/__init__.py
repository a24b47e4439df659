"""The driver: the Spark session, its two queries, and how replication goes."""
