"""Limits of metadata and properties: keys and values that clients set on producers, consumers and so on."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.names import check_length
from magnetar.metadata.policies import is_reserved_property
from magnetar.wire.frame import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.wire.proto import pulsar_api_pb2 as pb

LINK_METADATA_SIZE_MAX: Final = 16 * 1024
"""Maximum number of characters of the metadata of a link's producer or consumer, in any configuration."""


def producer_metadata(pairs: Sequence[pb.KeyValue], config: BrokerConfig, *, is_link: bool) -> dict[str, str]:
    """Return the metadata of a producer; raises RequestError with MetadataError if it is too large."""
    if is_link:
        return _within(pairs, LINK_METADATA_SIZE_MAX, Limit.LINK_METADATA_SIZE)
    return _within(pairs, config.maxProducerMetadataSize, Limit.PRODUCER_METADATA_SIZE)


def consumer_metadata(pairs: Sequence[pb.KeyValue], config: BrokerConfig, *, is_link: bool) -> dict[str, str]:
    """Return the metadata of a consumer; raises RequestError with MetadataError, as Pulsar, if it is too large."""
    if is_link:
        return _within(pairs, LINK_METADATA_SIZE_MAX, Limit.LINK_METADATA_SIZE)
    return _within(pairs, config.maxConsumerMetadataSize, Limit.CONSUMER_METADATA_SIZE)


def subscription_properties(pairs: Sequence[pb.KeyValue], config: BrokerConfig) -> dict[str, str]:
    """Return the properties of a new subscription; raises RequestError as ``check_properties`` does."""
    properties = _within(pairs, config.maxPropertiesSize, Limit.PROPERTIES_SIZE)
    check_properties(properties, config)
    return properties


def check_properties(properties: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise RequestError if the properties of a subscription or topic, which are stored with it, are too large."""
    for key in properties:
        check_length("property", key, config.maxNameLength)
    size = sum(len(key) + len(value) for key, value in properties.items())
    if size > config.maxPropertiesSize:
        raise _too_large(config.maxPropertiesSize, Limit.PROPERTIES_SIZE)


def check_topic_properties(properties: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise RequestError for properties of a topic that are too large, or that the broker uses itself."""
    check_properties(properties, config)
    reserved = next(filter(is_reserved_property, properties), None)
    if reserved is not None:
        raise RequestError(ServerError.NotAllowedError, f"The property {reserved} is reserved for the broker")


def _within(pairs: Sequence[pb.KeyValue], size_max: int, limit: Limit) -> dict[str, str]:
    """Return ``pairs`` if they have at most ``size_max`` characters. Reading stops at the first pair that exceeds it.

    Raises RequestError if they are too large, and RemoteProtocolError for invalid UTF-8.
    """
    left = size_max  # characters, as Pulsar counts
    if len(pairs) > left:
        raise _too_large(size_max, limit)
    items: list[tuple[str, str]] = []
    for pair in pairs:
        items.append((pair.key, pair.value))
        left -= len(pair.key) + len(pair.value)
        if left < 0:
            raise _too_large(size_max, limit)
    texts(chain.from_iterable(items))
    return dict(items)


def _too_large(size_max: int, limit: Limit) -> RequestError:
    message = f"metadata has a max size of {size_max} bytes ({limit})"
    return RequestError(ServerError.MetadataError, message, limit)
