"""Limits of the wire: each has a name, a unit and Pulsar's default."""

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""Bytes of payload in one entry (``maxMessageSize``). Clients cut their messages by this, give or take metadata."""

ENTRY_METADATA_PADDING = 8 * 1024
"""Bytes that an entry may exceed the largest message by. Less than a frame may, for what the way adds to it: the
command around it, and where it was published."""

FRAME_SIZE_PADDING = 10 * 1024
"""Bytes that a frame may exceed the largest message by (protocol, 1.1)."""

KEEP_ALIVE_INTERVAL_SECONDS = 30.0
"""Seconds between two keep-alive ticks (``keepAliveIntervalSeconds``)."""
