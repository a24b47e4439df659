"""Handlers of operations on topics, brokers and clusters."""
