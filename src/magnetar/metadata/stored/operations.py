"""Stored documents of operators: failure domains, isolation policies, resource quotas, dynamic configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_plus, unquote_plus

from pydantic import Field

from magnetar.metadata.policy.document import Document
from magnetar.metadata.stored.documents import Documents, Value

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName
    from magnetar.metadata.awaiting import Commit

_FAILURE_DOMAINS: Final = "/admin/failure-domains"
_ISOLATION_POLICIES: Final = "/admin/isolation-policies"
_RESOURCE_QUOTAS: Final = "/admin/resource-quotas"
_CONFIGURATION: Final = "/admin/configuration"


class FailureDomain(Document):
    """Brokers of a cluster that fail together."""

    brokers: list[str] = Field(default_factory=list)


class IsolationPolicy(Document):
    """Brokers to which namespaces are restricted. One broker per cluster serves all namespaces."""

    namespaces: list[str]
    primary: list[str]
    secondary: list[str]
    auto_failover_policy: dict[str, Any]
    unload_scope: str | None = None


class ResourceQuota(Document):
    """Expected load of a bundle. The defaults are those of Pulsar."""

    msgRateIn: float = 40.0  # noqa: N815 - Pulsar's name
    msgRateOut: float = 120.0  # noqa: N815 - Pulsar's name
    bandwidthIn: float = 100_000.0  # noqa: N815 - Pulsar's name
    bandwidthOut: float = 300_000.0  # noqa: N815 - Pulsar's name
    memory: float = 80.0
    dynamic: bool = True


class DynamicSettings(Document):
    """Values of settings that were changed at run time."""

    values: dict[str, str] = Field(default_factory=dict)


class OfCluster(NamedTuple):
    """A document of a cluster."""

    cluster: str
    name: str


class _OfCluster(Documents[OfCluster, Value]):
    """Documents of clusters by name."""

    _root: str

    def of(self, cluster: str) -> dict[str, Value]:
        """Return the documents of a cluster by name, sorted."""
        names = sorted(map(unquote_plus, self._store.children(f"{self._root}/{quote_plus(cluster)}")))
        found = ((name, self.get(OfCluster(cluster, name))) for name in names)
        return {name: each for name, each in found if each is not None}

    def _path(self, key: OfCluster) -> str:
        return f"{self._root}/{quote_plus(key.cluster)}/{quote_plus(key.name)}"


class FailureDomains(_OfCluster[FailureDomain]):
    """The failure domains."""

    _kind = FailureDomain
    _root = _FAILURE_DOMAINS


class IsolationPolicies(_OfCluster[IsolationPolicy]):
    """The isolation policies."""

    _kind = IsolationPolicy
    _root = _ISOLATION_POLICIES


class ResourceQuotas(Documents["tuple[NamespaceName, str] | None", ResourceQuota]):
    """The quotas of bundles, and the default quota, whose key is None."""

    _kind = ResourceQuota

    def _path(self, key: tuple[NamespaceName, str] | None) -> str:
        return f"{_RESOURCE_QUOTAS}/default" if key is None else f"{_RESOURCE_QUOTAS}/namespace/{key[0]}/{key[1]}"


class DynamicConfiguration(Documents[None, DynamicSettings]):
    """The values of settings that were changed at run time, in one document."""

    _kind = DynamicSettings

    def values(self) -> dict[str, str]:
        """Return the values by setting."""
        found = self.get(None)
        return {} if found is None else found.values

    def replace(self, values: dict[str, str]) -> Commit:
        """Replace all values."""
        return self.put(None, DynamicSettings(values=values))

    def _path(self, key: None) -> str:  # noqa: ARG002 - there is one document
        return _CONFIGURATION
