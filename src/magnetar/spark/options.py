"""Options of the data source, by the names of Pulsar's Spark connector, and of Spark's Kafka source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Options(BaseModel):
    """Options of reads and writes; the aliases are their names, which ignore case."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    service_url: Annotated[str, Field(alias="service.url")]
    """Broker URL, ``pulsar://host:port`` or ``pulsar+ssl://host:port``."""
    admin_url: Annotated[str, Field(alias="admin.url")]
    """Admin URL, ``http://host:port`` or ``https://host:port``."""
    client_conf: Annotated[str, Field(alias="client.conf")] = ""
    """Path of a client.conf of Pulsar with credentials, which each process reads; default: PULSAR_CLIENT_CONF of its
    environment. Credentials themselves are no options, because Spark shows options in plans, logs and its UI."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the options of ``option(…)``; raises ConfigurationError with the name of the option."""
        names = [field.alias or name for name, field in cls.model_fields.items()]
        spelling = {name.lower(): name for name in names}
        given = {name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK}
        secret = next((name for name in given if _SECRET.search(name)), None)
        if secret is not None:
            message = f"option {secret}: credentials are no options, which Spark shows in plans and logs\nhint: {_HINT}"
            raise ConfigurationError(message)
        try:
            return cls(**{spelling.get(name, name): value for name, value in given.items()})
        except ValidationError as error:
            raise ConfigurationError("; ".join(map(_problem, error.errors()))) from None


_SECRET = re.compile(r"auth.?(params|plugin)|token|password|secret|credential")

_HINT = "write them to a client.conf, and name its path in the option client.conf, or in PULSAR_CLIENT_CONF"

_OF_SPARK = ("path", "checkpointlocation", "queryname", "outputmode")


def _problem(error: Any) -> str:  # noqa: ANN401 - pydantic's details
    name = ".".join(map(str, error["loc"]))
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"option {name}: {reason}" if name else reason
