"""Subscriptions: acknowledgement, durability, seeks, and the lives of their dispatchers."""
