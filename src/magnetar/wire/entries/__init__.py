"""What a ledger stores: entries with their metadata, batches, markers and origins."""
