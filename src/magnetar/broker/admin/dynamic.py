"""Settings that operators change at run time."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.base.errors import AdminError, ConfigurationError
from magnetar.broker.settings.dynamic import DYNAMIC, with_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.broker.environment import Environment


class DynamicSettings:
    """See ``magnetar.admin.service.DynamicSettings``."""

    def __init__(self, environment: Environment) -> None:
        """Change the settings of ``environment``, which has those of the start now."""
        self._environment = environment

    @property
    def names(self) -> Sequence[str]:
        """Return the settings that can be changed."""
        return DYNAMIC

    def values(self) -> Mapping[str, str]:
        """Return the values that were set at run time."""
        return self._environment.resources.dynamic_configuration.values()

    async def set(self, name: str, value: str) -> None:
        """Set a setting, durably."""
        if name not in DYNAMIC:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Can't update non-dynamic configuration")
        await self._apply({**self.values(), name: value})

    async def remove(self, name: str) -> None:
        """Return to the value of the start, durably."""
        if name not in DYNAMIC:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Can't delete non-dynamic configuration")
        await self._apply({key: value for key, value in self.values().items() if key != name})

    async def _apply(self, values: dict[str, str]) -> None:
        try:
            config = with_values(self._environment.started_with, values)
        except ConfigurationError as error:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"Invalid dynamic-config value: {error}") from None
        await self._environment.resources.dynamic_configuration.replace(values)
        self._environment.reconfigure(config)
