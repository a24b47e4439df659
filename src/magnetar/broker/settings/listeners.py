"""The listeners of a broker: ``advertisedListeners``, ``internalListenerName`` and ``bindAddresses``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.metadata.policies import ClusterData
from magnetar.wire.listeners import BINARY, BINARY_TLS, WEB, WEB_TLS, Endpoint, parse_endpoints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.broker.settings.config import BrokerConfig

ADDRESS_OF: Final = {
    BINARY: "brokerServiceUrl",
    BINARY_TLS: "brokerServiceUrlTls",
    WEB: "serviceUrl",
    WEB_TLS: "serviceUrlTls",
}
"""The address of a cluster for each scheme."""


def advertised(config: BrokerConfig) -> dict[str, ClusterData]:
    """Return the addresses of each listener, by its name, in order."""
    found: dict[str, dict[str, str]] = {}
    for each in parse_endpoints(config.advertisedListeners):
        found.setdefault(each.listener, {})[ADDRESS_OF[each.scheme]] = each.url
    return {name: ClusterData.model_validate(urls) for name, urls in found.items()}


def internal(config: BrokerConfig) -> ClusterData:
    """Return the addresses of the internal listener, which clients without a listener get; none if there is none."""
    listeners = advertised(config)
    name = config.internalListenerName or next(iter(listeners), "")
    return listeners.get(name, ClusterData())


def bind_addresses(config: BrokerConfig) -> list[Endpoint]:
    """Return the addresses on which a broker listens besides those of its ports."""
    return parse_endpoints(config.bindAddresses, port_min=0)


def problems(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """Yield wrong settings, each with the problem."""
    try:
        endpoints = parse_endpoints(config.advertisedListeners)
    except ValueError as error:
        yield "advertisedListeners", str(error)
        return
    yield from (("advertisedListeners", problem) for problem in _of_endpoints(endpoints))
    names = {each.listener for each in endpoints}
    if config.internalListenerName and config.internalListenerName not in names:
        yield "internalListenerName", f"advertisedListeners has no listener {config.internalListenerName}"
    try:
        bound = bind_addresses(config)
    except ValueError as error:
        yield "bindAddresses", str(error)
        return
    for each in bound:
        if each.listener not in names:
            yield "bindAddresses", f"advertisedListeners has no listener {each.listener}, which {each.url} names"


def _of_endpoints(endpoints: list[Endpoint]) -> Iterator[str]:
    schemes: dict[tuple[str, str], Endpoint] = {}
    places: Mapping[str, Endpoint] = {each.place: each for each in reversed(endpoints)}
    for each in endpoints:
        first = schemes.setdefault((each.listener, each.scheme), each)
        if first is not each:
            yield f"{each.listener} has {first.url} and {each.url}: a listener has one address for each scheme"
        other = places[each.place].listener
        if other != each.listener:
            yield f"{other} and {each.listener} have the same address {each.place}"
