"""Connections of a task: its loop, the brokers of a cluster, and the channel from writer to reader."""
