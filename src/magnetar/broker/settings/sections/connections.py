"""Settings of connections, and of the memory that they use."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field

from magnetar.base import limits


class ConnectionSettings(BaseModel):
    """Connections, and the memory that they use."""

    maxMessageSize: int = Field(limits.MAX_MESSAGE_SIZE, gt=0, description="Maximum size of a message, in bytes.")
    maxMessageMetadataSize: int = Field(
        limits.METADATA_SIZE_MAX,
        gt=0,
        description="Maximum size of a message's metadata, in bytes: properties, keys and encryption keys.",
    )
    keepAliveIntervalSeconds: float = Field(
        limits.KEEP_ALIVE_INTERVAL_SECONDS, gt=0, description="Seconds between keep-alive pings."
    )
    connectionLivenessCheckTimeoutMillis: int = Field(
        5000,
        ge=0,
        description="Milliseconds within which an old producer or consumer must answer a "
        "ping; otherwise a new one replaces it.",
    )
    maxPendingPublishRequestsPerConnection: int = Field(
        1000,
        gt=0,
        description="Maximum number of pending publishes of a connection; its socket is not read while it has more.",
    )
    maxWithheldReceiptsPerConnection: int = Field(
        50_000,
        gt=0,
        description="Maximum number of withheld receipts of a connection (maxAtRiskMessages); its socket is not read "
        "while it has more.",
    )
    maxConcurrentConnections: int = Field(
        10_000, gt=0, description="Maximum number of connections; lower if the limit of open files is low."
    )
    brokerMaxConnectionsPerIp: int = Field(
        0, ge=0, description="Maximum number of connections from an IP address; 0: no limit."
    )
    brokerMaxConnectionsPerRole: int = Field(
        0,
        ge=0,
        description="Maximum number of connections of a role, which is not in superUserRoles or replicatorRoles; needs "
        "authenticationEnabled. 0: no limit.",
    )
    maxConcurrentLookupRequest: int = Field(
        50_000,
        gt=0,
        description="Maximum number of lookups in flight: questions about partitions that wait for the disk, and "
        "questions that wait for another cluster.",
    )
    maxHttpServerConnections: int = Field(
        2048,
        gt=0,
        description="Maximum number of REST connections; lower if the limit of open files is low. Beyond it, the "
        "connection that has been idle for longest is closed.",
    )
    httpMaxRequestHeaderSize: int = Field(
        8192, gt=0, description="Maximum size of the path and the headers of a request, in bytes."
    )
    httpRequestTimeoutSeconds: float = Field(
        30,
        gt=0,
        description="Seconds within which a REST client must send a request, or read a part of the answer. An idle "
        "connection is closed after the same time.",
    )
    connectionSendBufferBytes: int = Field(
        1 << 20,
        gt=0,
        description="Maximum number of unsent bytes of a connection; it gets no messages while it has more.",
    )
    memoryLimitMB: int = Field(
        0,
        ge=0,
        description="Maximum memory of the broker. Each limit below is a share of it. 0: a quarter of the memory of "
        "the machine, or of its control group, at least 192 and at most 1024.",
    )
    maxMessagePublishBufferSizeInMB: int = Field(
        0,
        ge=0,
        description="Maximum size of the messages of all connections that are arriving or not durable yet. Beyond it, "
        "sockets are not read. 0: a 24th of memoryLimitMB.",
    )
    maxRestBodiesSizeInMB: int = Field(
        0, ge=0, description="Maximum size of the bodies of all REST requests in progress. 0: a 64th of memoryLimitMB."
    )
    maxRestAnswersSizeInMB: int = Field(
        0, ge=0, description="Maximum size of all unread answers to REST requests. 0: a 32nd of memoryLimitMB."
    )
    maxSendBuffersSizeInMB: int = Field(
        0,
        ge=0,
        description="Maximum size of the send buffers of all connections: bytes that clients have not read yet. 0: an "
        "eighth of memoryLimitMB.",
    )
