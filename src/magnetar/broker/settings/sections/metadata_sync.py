"""Settings of the metadata synchronizer."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import TopicName


class MetadataSyncSettings(BaseModel):
    """Metadata synchronizer."""

    metadataSyncEventTopic: str = Field(
        "",
        description="Full name of the topic with the changes of tenants, namespaces, policies and partitions, the same "
        "in all clusters (PIP-136); its namespace has no other topics. Empty: each cluster has metadata of its own.",
    )
    metadataSyncSnapshotDurationSecond: int = Field(
        300,
        ge=0,
        description="Seconds between two snapshots of all metadata in the event topic, which bring in new clusters and "
        "repair missed events; 0: none.",
    )

    @field_validator("metadataSyncEventTopic")
    @classmethod
    def _is_full_name(cls, text: str) -> str:
        if text:
            try:
                name = TopicName.parse(text)
            except InvalidTopicNameError as error:
                raise ValueError(str(error)) from None
            if str(name) != text or not name.is_persistent:
                message = (
                    f"{text} is not the full name of a persistent topic: expected persistent://tenant/namespace/topic"
                )
                raise ValueError(message)
        return text
