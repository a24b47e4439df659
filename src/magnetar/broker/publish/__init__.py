"""Producers: access, the order of entries and receipts, deduplication, and the limit of replication lag."""
