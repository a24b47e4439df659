"""Limits of the wire: each has a name, a unit and Pulsar's default."""

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""Bytes of metadata and payload in one entry (``maxMessageSize``)."""

FRAME_SIZE_PADDING = 10 * 1024
"""Bytes that a frame may exceed the largest message by (protocol, 1.1)."""

KEEP_ALIVE_INTERVAL_SECONDS = 30.0
"""Seconds between two keep-alive ticks (``keepAliveIntervalSeconds``)."""
