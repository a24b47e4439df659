"""Delayed delivery: which entries wait for their time, kept on disk for a topic and all its subscriptions at once."""
