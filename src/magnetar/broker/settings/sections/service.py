"""Name and addresses of the cluster."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class ServiceSettings(BaseModel):
    """Name and addresses of the cluster."""

    clusterName: str = Field("standalone", description="Name of this cluster. Every replicated message contains it.")
    brokerServicePort: int | None = Field(
        6650, ge=0, le=65535, description="Port of the binary protocol; 0: any free port; empty: none."
    )
    webServicePort: int | None = Field(
        8080, ge=0, le=65535, description="Port of the admin REST API; 0: any free port; empty: none."
    )
    bindAddress: str = Field("0.0.0.0", description="Address to listen on.")  # noqa: S104 - a server's default
    advertisedAddress: str = Field("localhost", description="Host name in the addresses that lookups return.")
    advertisedListeners: str = Field(
        "",
        description="Addresses for clients of several networks: `name:scheme://host:port`, separated by commas, with "
        "the scheme pulsar, pulsar+ssl, http or https. A client gets those of the listener that it names.",
    )
    internalListenerName: str = Field(
        "",
        description="Listener whose addresses clients without a listener, other clusters and tools get. Empty: the "
        "first one. Addresses that it lacks are made of advertisedAddress.",
    )
    bindAddresses: str = Field(
        "",
        description="Addresses to listen on besides the ports: `name:scheme://host:port`, separated by commas. "
        "A client that connects there gets the addresses of this listener, unless it names another one.",
    )
    dataDirectory: Path = Field(Path("data"), description="Directory of all durable state.")
    acknowledgeIgnoredKeys: str = Field(
        "",
        description="Keys of Apache Pulsar that may be ignored although it is dangerous, separated by commas; `all`: "
        "all of them. Also unknown keys to ignore, by name.",
    )
