"""Delayed delivery: the index of a topic's delayed entries, on disk and shared by all its subscriptions."""
