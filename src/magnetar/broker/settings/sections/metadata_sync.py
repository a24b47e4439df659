"""Settings of the metadata synchronizer."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import TopicName
from magnetar.metasync.rules import parse_rules


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

    metadataSyncIncludedResources: str = Field(
        "",
        description="Rules for what this cluster shares with the others, separated by commas: `tenant`, "
        "`tenant/namespace`, and `#field` behind either for one field; `*` stands for any characters of a name. Empty: "
        "everything. A namespace includes its tenant.",
    )
    metadataSyncExcludedResources: str = Field(
        "",
        description="Rules of the same form for what this cluster neither publishes nor applies, although it is "
        "included. Example: `scratch,acme/test-*,*#message_ttl_in_seconds`.",
    )

    @field_validator("metadataSyncIncludedResources", "metadataSyncExcludedResources")
    @classmethod
    def _are_rules(cls, text: str) -> str:
        parse_rules(text)
        return text

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
