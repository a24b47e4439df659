"""Consumers and dispatchers: the choice of the consumer of each entry. Knows its subscription by a protocol only."""
