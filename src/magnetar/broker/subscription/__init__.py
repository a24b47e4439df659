"""Subscriptions: acknowledgement, durability, seeks, and their consumers."""
