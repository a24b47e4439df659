"""The broker's settings. Names are those of Pulsar's ``broker.conf`` where Pulsar has the setting.

Values come from a ``key=value`` file, the environment (``MAGNETAR_<key>``) and command-line flags; later ones win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import is_named_entity
from magnetar.broker.settings.schema_section import SchemaSettings
from magnetar.broker.settings.sections import (
    ConnectionSettings,
    DeduplicationSettings,
    DelayedDeliverySettings,
    DispatchSettings,
    ReplicationSettings,
    RetentionSettings,
    ServiceSettings,
    StorageSettings,
    TopicSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX = "MAGNETAR_"

SECTIONS: Final[tuple[type[BaseModel], ...]] = (
    ServiceSettings,
    ConnectionSettings,
    TopicSettings,
    SchemaSettings,
    DispatchSettings,
    StorageSettings,
    RetentionSettings,
    DeduplicationSettings,
    DelayedDeliverySettings,
    ReplicationSettings,
)
"""In the order of the reference page."""


class BrokerConfig(
    ReplicationSettings,
    DelayedDeliverySettings,
    DeduplicationSettings,
    RetentionSettings,
    StorageSettings,
    DispatchSettings,
    SchemaSettings,
    TopicSettings,
    ConnectionSettings,
    ServiceSettings,
):
    """All settings with their defaults. Unknown keys are rejected. Fields of the last base class come first."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]) -> BrokerConfig:
    """Merge the three sources; raises ConfigurationError with the key, the value and the allowed values."""
    values = {**(_read_properties(file) if file else {}), **_from_environment(environment), **flags}
    try:
        config = BrokerConfig(**values)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}={problem['input']!r}: {problem['msg']}" for problem in error.errors()
        )
        message = f"invalid configuration: {problems}"
        raise ConfigurationError(message) from None
    if not is_named_entity(config.clusterName):
        message = f"clusterName={config.clusterName!r}: use letters, digits and -=:._ only"
        raise ConfigurationError(message)
    return config


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        key: environment[ENVIRONMENT_PREFIX + key]
        for key in BrokerConfig.model_fields
        if ENVIRONMENT_PREFIX + key in environment
    }


def _read_properties(file: Path) -> dict[str, str]:
    """Read ``key=value`` lines. Blank lines and lines that start with ``#`` are skipped."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read the configuration file {file}: {error}"
        raise ConfigurationError(message) from error
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, separator, value = stripped.partition("=")
        if not separator:
            message = f"{file}:{number}: expected key=value, found {stripped!r}"
            raise ConfigurationError(message)
        values[key.strip()] = value.strip()
    return values
