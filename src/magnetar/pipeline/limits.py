"""Limits of the pipeline: each has a name, a unit and a default."""

LEASE_SECONDS = 60.0
"""Seconds that one task holds its links before the other query takes over (``--lease-seconds``)."""

LEASE_SECONDS_MIN = 4.0
"""Shortest lease in seconds: a task must have time to start, warm up and end between two of its turns."""

WARM_UP_SECONDS = 3.0
"""Seconds before its slot at which a task starts; a quarter of the lease when that is shorter."""

LATEST_OFFSET_POLL_SECONDS = 1.0
"""Longest time in seconds that Spark's question for the next lease is left unanswered."""

CHUNK_BYTES = 1024 * 1024
"""Bytes of entries in one row; a single larger entry travels in a row of its own."""

ROW_BYTES_MIN = 640
"""Least bytes of a row's body: more than the 512 of every buffer between reader and writer."""

ROW_ALIGNMENT = 64
"""Bytes of which a row's body is a multiple, so that Arrow writes nothing after it."""

BACKLOG_READ_BYTES = 64 * 1024
"""Bytes of entries in one turn of the reader's event loop that tell of a backlog: more is there to be read."""

BURST_INTERVAL_SECONDS = 0.005
"""Seconds from one burst of rows to the next; what arrives in between shares a row."""

WINDOW_ENTRIES_UNMEASURED = 2
"""Entries of one topic that may be unconfirmed before it is known how large they are. Markers do not tell."""

WINDOW_ENTRIES_INITIAL = 64
"""Entries of one topic that may be unconfirmed when its link starts, as far as they are not large."""

WINDOW_ENTRIES_MAX = 8192
"""Entries of one topic that may ever be unconfirmed."""

WINDOW_BYTES = 8 * 1024 * 1024
"""Bytes of one topic that may be unconfirmed, reckoned with the topic's average entry size."""

TARGET_BYTES = 32 * 1024 * 1024
"""Unconfirmed bytes of one target above which no topic gets new permits; at twice this the sources are not read."""

QUEUE_SECONDS = 0.05
"""Seconds that an entry may wait behind others between the reader and the target's receipt, if these are not large."""

BACKLOG_QUEUE_SECONDS = 0.25
"""The same while all topics that send have a backlog. With more at a time each stage needs less time for an entry."""

SHARED_SECONDS = 10.0
"""Seconds for which QUEUE_SECONDS holds after the last entry of a topic without a backlog."""

OUTFLOW_BYTES_MIN = 256 * 1024
"""Least bytes, with overhead, that may be under way between the reader and the receipts of one target."""

OUTFLOW_TURN_BYTES = 64 * 1024
"""Bytes, with overhead, that one topic hands to the writer before the next topic has its turn."""

OUTFLOW_ENTRY_BYTES = 1024
"""Overhead of an entry: an entry of no bytes takes as long to carry as this many bytes."""

ACK_INTERVAL_SECONDS = 0.05
"""Longest time in seconds that a confirmed position waits before it is acknowledged at its source."""

BOOKMARK_READ_AHEAD = 1000
"""Messages that a foreign target may send ahead while its log is read from the bookmark."""

BOOKMARK_INTERVAL_SECONDS = 1.0
"""Seconds between two moves of a bookmark: what was written since then is read when the link is taken up again."""

STALL_SECONDS = 15.0
"""Seconds without a receipt after which a topic with unconfirmed entries is parked."""

REASON_CHARACTERS = 500
"""Characters of the reason for parking a link that its source is told."""

PARK_INITIAL_SECONDS = 0.2
"""Seconds before the first new attempt for a topic that was refused."""

PARK_MAX_SECONDS = 30.0
"""Longest time in seconds between two attempts for a topic that keeps being refused."""

RECONNECT_INITIAL_SECONDS = 0.1
"""Seconds before the first new attempt to reach a broker."""

RECONNECT_MAX_SECONDS = 3.0
"""Longest time in seconds between two attempts to reach a broker."""

CONNECT_TIMEOUT_SECONDS = 5.0
"""Seconds that a connection, with its handshake, may take."""

REQUEST_TIMEOUT_SECONDS = 10.0
"""Seconds after which an unanswered request is taken for failed."""

TOPICS_POLL_SECONDS = 0.5
"""Seconds between two questions for the topics of a namespace."""

ADDRESSES_POLL_SECONDS = 2.0
"""Seconds between two questions for the broker URLs of the clusters."""

RIVALS_TOLD_MAX = 100
"""Warnings of other pipelines that a driver gives: one for each target and run of another pipeline."""

NAMESPACES_POLL_SECONDS = 3.0
"""Seconds between two questions for the namespaces of a cluster."""

ADMIN_TIMEOUT_SECONDS = 5.0
"""Seconds that an admin request may take."""

CHANNEL_TIMEOUT_SECONDS = 30.0
"""Seconds in which a writer must have named itself to its reader; the task fails, and is retried, otherwise."""

DRAIN_SECONDS = 3.0
"""Seconds that a writer waits for outstanding receipts when its input has ended."""

DRAIN_POLL_SECONDS = 0.01
"""Seconds between two looks whether all receipts have come."""

IDLE_SECONDS = 0.5
"""Longest time in seconds that a loop waits when nothing happens."""

RESTART_INITIAL_SECONDS = 0.5
"""Seconds before a query that ended is started again for the first time."""

RESTART_MAX_SECONDS = 30.0
"""Longest time in seconds between two starts of a query that keeps ending."""

PROGRESS_SECONDS = 5.0
"""Seconds between two progress reports."""

PROGRESS_TOPICS_MAX = 500
"""Topics of one namespace whose stats go into a progress report."""

SUPERVISION_SECONDS = 0.5
"""Seconds between two looks at the queries."""
