"""Metadata and properties: keys and values that clients give to producers, consumers, subscriptions and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import check_length

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.broker.config import BrokerConfig
    from magnetar.wire.proto import pulsar_api_pb2 as pb

LINK_METADATA_SIZE_MAX: Final = 16 * 1024
"""Characters of the metadata of a link's producer or consumer, whatever the configuration says for those of clients."""


def producer_metadata(pairs: Iterable[pb.KeyValue], config: BrokerConfig, *, is_link: bool) -> dict[str, str]:
    """Return the metadata of a producer; raises RequestError with MetadataError if it is too large."""
    if is_link:
        return _within(pairs, LINK_METADATA_SIZE_MAX, Limit.LINK_METADATA_SIZE)
    return _within(pairs, config.maxProducerMetadataSize, Limit.PRODUCER_METADATA_SIZE)


def consumer_metadata(pairs: Iterable[pb.KeyValue], config: BrokerConfig, *, is_link: bool) -> dict[str, str]:
    """Return the metadata of a consumer; raises RequestError with MetadataError, as Pulsar, if it is too large."""
    if is_link:
        return _within(pairs, LINK_METADATA_SIZE_MAX, Limit.LINK_METADATA_SIZE)
    return _within(pairs, config.maxConsumerMetadataSize, Limit.CONSUMER_METADATA_SIZE)


def check_properties(properties: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise RequestError if new properties of a subscription or topic, which are stored with it, are too large."""
    for key in properties:
        check_length("property", key, config.maxNameLength)
    _check_size(properties.items(), config.maxPropertiesSize, Limit.PROPERTIES_SIZE)


def _within(pairs: Iterable[pb.KeyValue], size_max: int, limit: Limit) -> dict[str, str]:
    _check_size(((each.key, each.value) for each in pairs), size_max, limit)
    return {each.key: each.value for each in pairs}


def _check_size(items: Iterable[tuple[str, str]], size_max: int, limit: Limit) -> None:
    """Raise RequestError if there are more characters, as Pulsar counts, than ``size_max``."""
    if sum(len(key) + len(value) for key, value in items) > size_max:
        message = f"metadata has a max size of {size_max} bytes ({limit})"
        raise RequestError(ServerError.MetadataError, message, limit)
