"""Connections of a task: its event loop, the brokers of a cluster, and the channel from writer to reader."""
