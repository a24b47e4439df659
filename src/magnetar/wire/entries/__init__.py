"""Entries as ledgers store them: metadata, batches, markers and origins."""
