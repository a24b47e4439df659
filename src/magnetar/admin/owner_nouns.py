"""The nouns of the client for permissions and properties, which namespaces and topics have."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.admin.nouns import Noun
from magnetar.admin.paths import owner_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.base.names import NamespaceName, TopicName


class Permissions(Noun):
    """Actions that roles are permitted. A topic's include those of its namespace."""

    def of(self, owner: NamespaceName | TopicName) -> dict[str, list[str]]:
        """Return the permitted actions by role."""
        return dict(self._http.get(f"{owner_path(owner)}/permissions"))

    def grant(self, owner: NamespaceName | TopicName, role: str, actions: Sequence[str]) -> None:
        """Permit a role these actions, and no others, for the owner."""
        self._http.post(_role_path(owner, role), list(actions))

    def revoke(self, owner: NamespaceName | TopicName, role: str) -> None:
        """Revoke all permissions that a role was granted for the owner."""
        self._http.delete(_role_path(owner, role))


class Properties(Noun):
    """Properties that operators attach."""

    def of(self, owner: NamespaceName | TopicName) -> dict[str, str]:
        """Return the values by key."""
        return dict(self._http.get(_properties_path(owner)) or {})

    def update(self, owner: NamespaceName | TopicName, properties: Mapping[str, str]) -> None:
        """Set properties; the others stay."""
        self._http.put(_properties_path(owner), dict(properties))

    def remove_from_namespace(self, namespace: NamespaceName, key: str) -> None:
        """Remove one property."""
        self._http.delete(f"{owner_path(namespace)}/property/{quote(key, safe='')}")

    def clear_namespace(self, namespace: NamespaceName) -> None:
        """Remove all properties."""
        self._http.delete(_properties_path(namespace))

    def remove_from_topic(self, topic: TopicName, key: str) -> None:
        """Remove one property."""
        self._http.delete(_properties_path(topic), key=key)


def _role_path(owner: NamespaceName | TopicName, role: str) -> str:
    return f"{owner_path(owner)}/permissions/{quote(role, safe='')}"


def _properties_path(owner: NamespaceName | TopicName) -> str:
    return f"{owner_path(owner)}/properties"
