"""Limits: each has a name, a unit and, where Pulsar has the same limit, Pulsar's name and default."""

from __future__ import annotations

from enum import StrEnum


class Limit(StrEnum):
    """Every limit whose hits are counted. The value is its name, and the key in the configuration if there is one."""

    CONNECTIONS = "maxConcurrentConnections"
    CONNECTIONS_PER_ADDRESS = "brokerMaxConnectionsPerIp"
    CONNECTIONS_PER_ROLE = "brokerMaxConnectionsPerRole"
    LOOKUPS = "maxConcurrentLookupRequest"
    PUBLISHED_MESSAGES = "brokerPublisherThrottlingMaxMessageRate"
    PUBLISHED_BYTES = "brokerPublisherThrottlingMaxByteRate"
    KEEP_ALIVE = "keepAliveIntervalSeconds"
    """Seconds for the handshake, or for the answer to a PING."""
    PENDING_REQUESTS = "maxPendingRequestsPerConnection"
    """PENDING_REQUESTS_MAX of ``broker.session.requests``."""
    MEMORY = "memoryLimitMB"
    """Topics, subscriptions, producers, consumers and requests that are refused because the memory is used up."""
    OPEN_FILES = "openFiles"
    """Connections, including REST, that are refused because of RLIMIT_NOFILE, below the limits of connections."""
    HANDSHAKE_FRAME_SIZE = "maxHandshakeFrameSize"
    """HANDSHAKE_FRAME_SIZE_MAX."""
    PENDING_PASSWORDS = "maxPendingPasswordChecks"
    """PENDING_MAX of ``security.providers.basic``."""
    AUTHENTICATION_ATTEMPTS = "maxFailedAuthenticationsPerAddress"
    """FAILURES_AT_ONCE and FAILURES_PER_SECOND of ``security.attempts``."""
    MESSAGE_SIZE = "maxMessageSize"
    """Entries, and frames after the handshake."""
    METADATA_SIZE = "maxMessageMetadataSize"
    REPLICATION_CLUSTERS = "maxReplicationClustersPerMessage"
    """REPLICATION_CLUSTERS_MAX."""
    COMMAND_SIZE = "maxCommandSize"
    """COMMAND_SIZE_MAX."""
    BATCH_MESSAGES = "maxMessagesPerBatch"
    """BATCH_MESSAGES_MAX."""
    OPENED_BATCH_MESSAGES = "maxMessagesPerOpenedBatch"
    """OPENED_BATCH_MESSAGES_MAX."""
    UNREAD_BATCH_MESSAGES = "maxMessagesPerUnreadBatch"
    """UNREAD_BATCH_MESSAGES_MAX."""
    PENDING_PUBLISHES = "maxPendingPublishRequestsPerConnection"
    NON_PERSISTENT_MESSAGES = "maxConcurrentNonPersistentMessagePerConnection"
    PUBLISH_BUFFER = "maxMessagePublishBufferSizeInMB"
    WITHHELD_RECEIPTS = "maxWithheldReceiptsPerConnection"
    SEND_BUFFER = "connectionSendBufferBytes"
    SEND_BUFFERS = "maxSendBuffersSizeInMB"
    CLOSED_PRODUCERS = "maxClosedProducersPerConnection"
    PRODUCERS = "maxProducersPerTopic"
    SUBSCRIPTIONS = "maxSubscriptionsPerTopic"
    TOPICS = "maxTopicsPerNamespace"
    CONSUMERS_OF_TOPIC = "maxConsumersPerTopic"
    CONSUMERS_OF_SUBSCRIPTION = "maxConsumersPerSubscription"
    HASH_RANGES = "maxHashRangesPerConsumer"
    """HASH_RANGES_MAX of ``broker.dispatch.selectors``."""
    UNACKED_PER_CONSUMER = "maxUnackedMessagesPerConsumer"
    UNACKED_PER_SUBSCRIPTION = "maxUnackedMessagesPerSubscription"
    LOOK_AHEAD_PER_CONSUMER = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
    LOOK_AHEAD_PER_SUBSCRIPTION = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
    WAITING_CHUNKS = "maxWaitingChunksPerSubscription"
    """WAITING_CHUNKS_MAX of ``broker.dispatch.shared``."""
    BACKLOG_SIZE = "backlogQuotaDefaultLimitBytes"
    """Includes topics of namespaces with a quota of their own. The same applies to the next limit."""
    BACKLOG_AGE = "backlogQuotaDefaultLimitSecond"
    NAME_LENGTH = "maxNameLength"
    CLUSTER_NAME_LENGTH = "maxClusterNameLength"
    """CLUSTER_NAME_LENGTH_MAX."""
    PRODUCER_METADATA_SIZE = "maxProducerMetadataSize"
    CONSUMER_METADATA_SIZE = "maxConsumerMetadataSize"
    LINK_METADATA_SIZE = "maxLinkMetadataSize"
    """LINK_METADATA_SIZE_MAX of ``broker.settings.properties``."""
    PROPERTIES_SIZE = "maxPropertiesSize"
    PARTITIONS = "maxNumPartitionsPerPartitionedTopic"
    TOPICS_PATTERN_LENGTH = "subscriptionPatternMaxLength"
    TOPICS_PATTERN_MEMORY = "subscriptionPatternMaxMemory"
    """PATTERN_MEMORY_MAX of ``broker.topic.topic_lists``."""
    TOPICS_PATTERNS = "maxTopicListPatternsInProgress"
    """PATTERNS_AT_ONCE_MAX of ``broker.topic.topic_lists``."""
    UNACKED_RANGES = "managedLedgerMaxUnackedRangesToPersist"
    BATCH_DELETED = "managedLedgerMaxBatchDeletedIndexToPersist"
    DELIVERY_DELAY = "delayedDeliveryMaxDelayInMillis"
    DEDUPLICATION_PRODUCERS = "brokerDeduplicationMaxNumberOfProducers"
    PROGRESS_MARKERS = "maxPendingProgressMarkersPerTopic"
    PROGRESS_MARKER_PARTS = "maxPartsPerProgressMarker"
    """PROGRESS_MARKER_PARTS_MAX of ``geo.progress.codec``."""
    SNAPSHOT_MARKER_PARTS = "maxPartsPerSnapshotMarker"
    """SNAPSHOT_MARKER_PARTS_MAX of ``geo.snapshots.markers``."""
    MARKER_SIZE = "maxMarkerSize"
    """MARKER_SIZE_MAX."""
    WAITING_MARKERS = "maxWaitingMarkersPerLink"
    """WAITING_MAX of ``broker.replication.outbound.marker_queue``."""
    TOMBSTONES = "maxTombstonesPerTopic"
    """TOMBSTONES_MAX of ``broker.replication.progress.tombstones``."""
    SWITCHED_OFF = "maxSwitchedOffSubscriptionsPerTopic"
    """SWITCHED_OFF_MAX of ``broker.replication.progress.switched_off``."""
    SKIPPED_RANGES = "maxSkippedRangesPerTopic"
    """SKIPPED_RANGES_MAX of ``broker.log.skipped_entries``."""
    SCHEMA_SIZE = "maxSchemaSize"
    SCHEMAS_SIZE = "maxSchemasSizePerTopic"
    SCHEMA_VERSIONS = "maxSchemaVersionsPerTopic"
    ALL_SCHEMAS_SIZE = "maxSchemasSizeInMB"
    SCHEMAS_PENDING = "maxPendingSchemasSize"
    """PENDING_SIZE_MAX of ``broker.schemas.registry``."""
    SCHEMA_COMPLEXITY = "maxSchemaComplexity"
    """DEPTH_MAX, LIST_MAX and STEPS_MAX of ``schema.avro_definition``."""
    HANDSHAKES = "maxConcurrentTlsHandshakes"
    HANDSHAKE_TIME = "tlsHandshakeTimeoutSeconds"
    WAITING_HANDSHAKES = "maxWaitingTlsHandshakes"
    """WAITING_MAX of ``broker.tls.handshakes``."""
    HTTP_CONNECTIONS = "maxHttpServerConnections"
    HTTP_HEADER_SIZE = "httpMaxRequestHeaderSize"
    HTTP_REQUEST_TIMEOUT = "httpRequestTimeoutSeconds"
    HTTP_BODIES_SIZE = "maxRestBodiesSizeInMB"
    HTTP_ANSWERS_SIZE = "maxRestAnswersSizeInMB"
    HTTP_BODY_SIZE = "httpMaxRequestBodySize"
    HTTP_BODY_VALUES = "httpMaxRequestBodyValues"
    """BODY_VALUES_MAX."""
    DOCUMENT_SIZE = "maxMetadataDocumentSize"
    """DOCUMENT_BYTES_MAX and DOCUMENT_VALUES_MAX."""
    ROUTES = "maxRoutes"
    """ROUTES_MAX."""
    METADATA_UNITS = "maxMetadataFieldsPerResource"
    """UNITS_MAX of ``metasync.records``."""
    METADATA_EVENT_SIZE = "maxMetadataEventSize"
    """EVENT_BYTES_MAX and EVENT_EDITS_MAX of ``metasync.events``."""
    AUDIT_EVENTS = "maxAuditEventsPerAddress"
    """EVENTS_AT_ONCE, ALL_AT_ONCE and the rates of ``broker.audit.limits``."""
    WAITING_AUDIT_EVENTS = "maxWaitingAuditEvents"
    """LINES_WAITING_MAX of ``broker.audit.file``."""
    LOG_LINES = "maxLogLinesPerEvent"


MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""Bytes of payload in one entry (``maxMessageSize``). Clients split messages at this size, without metadata."""

ENTRY_METADATA_PADDING = 8 * 1024
"""Maximum bytes of a published entry in addition to the largest message. Replicated entries also have a stamp."""

STAMP_SIZE_MAX = 1024
"""Maximum bytes of a stamp, for cluster names of up to 500 bytes."""

REPLICATED_ENTRY_PADDING = ENTRY_METADATA_PADDING + STAMP_SIZE_MAX
"""Maximum bytes of a replicated entry in addition to the largest message; the rest of the frame is for the command."""

FRAME_SIZE_PADDING = 10 * 1024
"""Maximum bytes of a frame in addition to the largest message (protocol: Frames)."""

METADATA_SIZE_MAX = 256 * 1024
"""Bytes of the metadata of a message (``maxMessageMetadataSize``). Pulsar has no such limit.

Parsing takes up to 5 ms, and up to 25 ms for a list of empty elements, which is refused afterwards.
"""

REPLICATED_METADATA_PADDING = 2 * STAMP_SIZE_MAX
"""Maximum bytes of the metadata of a replicated message in addition to those of its client. A returned one has two
stamps."""

MARKER_SIZE_MAX = 1024 * 1024
"""Maximum bytes of the payload of a marker from another cluster. Brokers send at most a quarter of that.

Parsing takes up to 25 ms, for a list of empty elements. Their number is checked afterwards.
"""

REPLICATION_CLUSTERS_MAX = 1000
"""Names in ``replicate_to`` of a message."""

BATCHED_MESSAGE_SIZE_MIN = 6
"""Minimum bytes of a message in a batch: the size of its metadata (4), and the metadata with the payload size (2)."""

BATCH_MESSAGES_MAX = 1_000_000
"""Maximum number of messages of a batch. The default of clients is 1,000."""

OPENED_BATCH_MESSAGES_MAX = 10_000
"""Maximum number of messages of a batch that a broker parses to report them: some 40 ms of work."""

UNREAD_BATCH_MESSAGES_MAX = 10_000
"""Maximum batch size that is accepted from a client for an entry that is not in memory."""

HANDSHAKE_FRAME_SIZE_MAX = 64 * 1024
"""Maximum bytes of a frame before the handshake ends, with size fields: CONNECT contains names and credentials."""

COMMAND_SIZE_MAX = 2 * 1024 * 1024
"""Maximum bytes of a command that a broker accepts, without an entry: 50,000 ids with all their fields, or a schema."""

PLAIN_COMMAND_SIZE_MAX = 256 * 1024
"""Maximum bytes of a command without a list of message ids, not counting its schema.

A command can contain an empty element in two bytes. Parsing takes 30 ms per million bytes of them.
"""

NAME_LENGTH_MAX = 2048
"""Maximum bytes, in UTF-8, of a name that a client or an operator chooses (``maxNameLength``). Pulsar has no limit."""

CLUSTER_NAME_LENGTH_MAX = 255
"""Maximum bytes of a cluster name: the log stores its length in one byte."""

PARTITIONS_MAX = 100_000
"""Partitions of a topic, if the configuration sets no limit."""

BODY_SIZE_MAX = 1024 * 1024
"""Maximum bytes of the body of a REST request; policies are the largest bodies and stay far below."""

BODY_VALUES_MAX = 10_000
"""Maximum number of keys and values in the body of a REST request. Listing the errors of all takes some 30 ms."""

DOCUMENT_BYTES_MAX = 1024 * 1024
"""Maximum bytes of a document in the metadata store that clients may write (the default of ZooKeeper's nodes)."""

DOCUMENT_VALUES_MAX = 10_000
"""Maximum number of keys and values in such a document. Each use of its policies reads all of them."""

ROUTES_MAX = 10_000
"""Maximum number of routes, with the deleted ones. Each lookup service reads all of them after a change of one."""

KEEP_ALIVE_INTERVAL_SECONDS = 30.0
"""Seconds between two keep-alive ticks (``keepAliveIntervalSeconds``)."""
