"""Settings that can be changed while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from magnetar.base.errors import ConfigurationError
from magnetar.broker.settings.config import BrokerConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

DYNAMIC: Final = (
    "acknowledgmentFlushIntervalMs",
    "allowAutoSubscriptionCreation",
    "allowAutoTopicCreation",
    "allowAutoTopicCreationType",
    "defaultNumPartitions",
    "maxNameLength",
    "maxNumPartitionsPerPartitionedTopic",
    "maxPropertiesSize",
)
"""Settings that the broker reads at each use."""


def with_values(config: BrokerConfig, values: Mapping[str, str]) -> BrokerConfig:
    """Return ``config`` with other values of dynamic settings; raises ConfigurationError for an invalid value."""
    changed = {name: value for name, value in values.items() if name in DYNAMIC}
    for name, value in changed.items():
        is_flag = BrokerConfig.model_fields[name].annotation is bool
        if is_flag and value.lower() not in {"true", "false"}:
            message = f"{name}={value!r}: expected true or false"
            raise ConfigurationError(message)
    try:
        return BrokerConfig.model_validate({**config.model_dump(), **changed})
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{first['loc'][0]}={first['input']!r}: {first['msg']}"
        raise ConfigurationError(message) from None
