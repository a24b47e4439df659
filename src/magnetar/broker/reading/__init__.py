"""Read-ahead of entries for their senders, within the shares of memory; makes no decision about dispatch."""
