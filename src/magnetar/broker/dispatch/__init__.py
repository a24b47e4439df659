"""Consumers, and which of them gets which entry, and when; knows its subscription by a protocol only."""
