"""A subscription's durable place in a managed ledger."""
