"""Limits of the wire: each has a name, a unit and Pulsar's default."""

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""Bytes of payload in one entry (``maxMessageSize``). Clients cut their messages by this, give or take metadata."""

ENTRY_METADATA_PADDING = 8 * 1024
"""Bytes that a published entry may exceed the largest message by. The stamp of a replicated entry must fit on top."""

STAMP_SIZE_MAX = 1024
"""Bytes that the stamp adds to an entry at most, for names of clusters of up to 500 bytes."""

REPLICATED_ENTRY_PADDING = ENTRY_METADATA_PADDING + STAMP_SIZE_MAX
"""Bytes that a replicated entry may exceed the largest message by; the rest of the frame is for the command."""

FRAME_SIZE_PADDING = 10 * 1024
"""Bytes that a frame may exceed the largest message by (protocol, 1.1)."""

HANDSHAKE_FRAME_SIZE_MAX = 64 * 1024
"""Bytes of a frame before the connection is established, size fields included: CONNECT holds names and credentials."""

KEEP_ALIVE_INTERVAL_SECONDS = 30.0
"""Seconds between two keep-alive ticks (``keepAliveIntervalSeconds``)."""
