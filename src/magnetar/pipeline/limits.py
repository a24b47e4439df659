"""Limits of the pipeline: each has a name, a unit and a default."""

LEASE_SECONDS = 60.0
"""Seconds for which one task holds its links (``--lease-seconds``)."""

LEASE_SECONDS_MIN = 4.0
"""Minimum duration of a lease in seconds: a task must start, warm up and end between two turns of its query."""

WARM_UP_SECONDS = 3.0
"""Seconds between the start of a task and its slot; a quarter of a short lease."""

LATEST_OFFSET_POLL_SECONDS = 1.0
"""Maximum seconds until Spark's request for the next offset is answered."""

CHUNK_BYTES = 1024 * 1024
"""Maximum bytes of entries in one row; a single larger entry has a row of its own."""

ROW_BYTES_MIN = 640
"""Minimum bytes of a row's body: above the 512 bytes of every buffer between reader and writer."""

ROW_ALIGNMENT = 64
"""A row's body is a multiple of this number of bytes, so that Arrow adds no padding."""

BACKLOG_READ_BYTES = 64 * 1024
"""Bytes of entries in one turn of the reader's event loop that indicate a backlog, so that reading continues."""

BURST_INTERVAL_SECONDS = 0.005
"""Seconds between two bursts of rows; entries that arrive in between share a row."""

WINDOW_ENTRIES_UNMEASURED = 2
"""Maximum number of unconfirmed entries of a topic with unknown entry size. Markers do not reveal it."""

WINDOW_ENTRIES_INITIAL = 64
"""Maximum number of unconfirmed entries of a topic at the start of its link, unless they are large."""

WINDOW_ENTRIES_MAX = 8192
"""Maximum number of unconfirmed entries of a topic."""

WINDOW_BYTES = 8 * 1024 * 1024
"""Maximum unconfirmed bytes of a topic, computed with its average entry size."""

TARGET_BYTES = 32 * 1024 * 1024
"""Unconfirmed bytes of a target beyond which no topic gets permits; beyond twice the number sources are not read."""

QUEUE_SECONDS = 0.05
"""Maximum seconds for which an entry waits behind others between the reader and its receipt, unless these are large."""

BACKLOG_QUEUE_SECONDS = 0.25
"""The same if all active topics have a backlog. Larger groups need less time for each entry in every stage."""

SHARED_SECONDS = 10.0
"""Seconds for which QUEUE_SECONDS applies after the last entry of a topic without a backlog."""

OUTFLOW_BYTES_MIN = 256 * 1024
"""Minimum limit of bytes, with overhead, in flight between the reader and the receipts of a target."""

OUTFLOW_TURN_BYTES = 64 * 1024
"""Bytes, with overhead, that one topic passes to the writer in its turn."""

OUTFLOW_ENTRY_BYTES = 1024
"""Overhead of an entry: carrying an empty entry takes as long as this number of bytes."""

OUTFLOW_RUN_ENTRY_BYTES = 64
"""The same for each entry of a run."""

ACK_INTERVAL_SECONDS = 0.05
"""Maximum seconds between a confirmation and the acknowledgement at the source."""

BOOKMARK_READ_AHEAD = 1000
"""Permits for reading a foreign target's log from the bookmark."""

BOOKMARK_INTERVAL_SECONDS = 1.0
"""Seconds between two updates of a bookmark. Later entries are read again when the link is reopened."""

OPENINGS_MAX = 256
"""Maximum number of links of a source that a task attaches at the same time, so that requests are answered in time."""

OPENING_SECONDS = 1.0
"""Seconds after which a link that is being attached no longer keeps others waiting; more if the source is slow."""

FIRST_ENTRY_SECONDS = 0.1
"""Seconds within which the first entry of an attached link arrives, if the source has any."""

STALL_SECONDS = 15.0
"""Seconds without a receipt after which a topic with unconfirmed entries is parked."""

REASON_CHARACTERS = 500
"""Maximum characters of the reason for parking that is sent to the source."""

PARK_INITIAL_SECONDS = 0.2
"""Seconds before the first retry of a refused topic."""

PARK_MAX_SECONDS = 30.0
"""Maximum seconds between two attempts for a refused topic."""

RECONNECT_INITIAL_SECONDS = 0.1
"""Seconds before the first reconnection to a broker."""

RECONNECT_MAX_SECONDS = 3.0
"""Maximum seconds between two attempts to connect to a broker."""

CONNECT_TIMEOUT_SECONDS = 5.0
"""Time limit for a connection with its handshake, in seconds."""

REQUEST_TIMEOUT_SECONDS = 10.0
"""Time limit for the response to a request, in seconds."""

TOPICS_INTERVAL_SECONDS = 0.02
"""Minimum seconds between two requests for the topics of a namespace whose changes are reported."""

TOPICS_INTERVAL_PER_TOPIC_SECONDS = 0.00005
"""Further seconds for each topic of the namespace, since each answer has all of them."""

TOPICS_POLL_SECONDS = 0.5
"""Seconds between two polls of the topics of a namespace, if the broker does not report changes."""

ADDRESSES_POLL_SECONDS = 2.0
"""Seconds between two polls of the clusters' broker URLs."""

RIVALS_TOLD_MAX = 100
"""Maximum number of warnings about other pipelines: one for each target and run of another pipeline."""

NAMESPACES_POLL_SECONDS = 3.0
"""Seconds between two polls of the namespaces of a cluster whose broker does not report changes."""

ADMIN_TIMEOUT_SECONDS = 5.0
"""Time limit for an admin request, in seconds."""

CHANNEL_TIMEOUT_SECONDS = 30.0
"""Time limit for a writer to connect to its reader, in seconds; otherwise the task fails and is retried."""

DRAIN_SECONDS = 3.0
"""Seconds for which a writer waits for outstanding receipts at the end of its input."""

DRAIN_POLL_SECONDS = 0.01
"""Seconds between two checks for outstanding receipts."""

IDLE_SECONDS = 0.5
"""Maximum seconds for which an idle loop waits."""

ONE_QUERY_SECONDS = 15.0
"""Maximum seconds after the start until the second query starts. It starts earlier if the first one carries all links,
or if its turn comes."""

RESTART_INITIAL_SECONDS = 0.5
"""Seconds before the first restart of an ended query."""

RESTART_MAX_SECONDS = 30.0
"""Maximum seconds between two restarts of a query."""

STATUS_SILENT_SECONDS = 15.0
"""Seconds without a status of a task after which its figures are unknown. A task sends one each second."""

HAND_OVER_SILENT_SECONDS = 3.0
"""Seconds without a status after which a task whose successor has begun counts as ended."""

PARALLELISM_MAX = 8
"""Maximum number of tasks among which the links to a target are divided if ``--parallelism`` is not given."""

PROGRESS_SECONDS = 5.0
"""Seconds between two progress reports."""

PROGRESS_TOPICS_MAX = 500
"""Maximum number of topics of a namespace whose progress is requested for a report; the others count as unknown.

Brokers of Magnetar sum it up themselves, over all topics; those of other systems and earlier versions do not.
"""

SUPERVISION_SECONDS = 0.5
"""Seconds between two checks of the queries."""

EXECUTORS_WAIT = "60s"
"""Time for executors to register, if ``spark.scheduler.maxRegisteredResourcesWaitingTime`` does not state it."""

EXECUTORS_ANSWER_SECONDS = 180.0
"""Seconds in which the first tasks of executors must end; before them, executors fetch and unpack the package."""

EXECUTORS_STABLE_SECONDS = 3.0
"""Seconds without a further executor after which no more of them are waited for."""

CLOCK_SKEW_SECONDS = 1.0
"""Seconds by which the clock of an executor may differ from the driver's without a warning."""

SLOTS_POLL_SECONDS = 5.0
"""Seconds between two looks at the number of task slots."""

SLOTS_SETTLE_SECONDS = 10.0
"""Seconds for which the number of task slots must be too small, or large enough again, before the driver says so."""
