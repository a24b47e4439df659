"""Bulk movement of entries between clusters, carried by Apache Spark; see `replicate` for the live links."""
