"""Nouns of the client for permissions, properties and further policies, and for resources of Apache Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.admin.nouns.noun import Json, Noun
from magnetar.admin.paths import cluster_path, owner_path

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

    def grant_for_subscription(self, namespace: NamespaceName, subscription: str, roles: Sequence[str]) -> None:
        """Permit these roles, and no others, to use a subscription."""
        self._http.post(f"{owner_path(namespace)}/permissions/subscription/{quote(subscription, safe='')}", list(roles))

    def revoke_for_subscription(self, namespace: NamespaceName, subscription: str, role: str) -> None:
        """Revoke the permission of a role to use a subscription."""
        path = f"{quote(subscription, safe='')}/{quote(role, safe='')}"
        self._http.delete(f"{owner_path(namespace)}/permissions/{path}")


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


class Placement(Noun):
    """LocalPolicies of a namespace: groups for the placement of its topics and ledgers."""

    def anti_affinity_group(self, namespace: NamespaceName) -> str | None:
        """Return the anti-affinity group; None if there is none."""
        return self._http.send("GET", f"{owner_path(namespace)}/antiAffinity").text or None

    def set_anti_affinity_group(self, namespace: NamespaceName, group: str) -> None:
        """Set the anti-affinity group."""
        self._http.post(f"{owner_path(namespace)}/antiAffinity", group)

    def remove_anti_affinity_group(self, namespace: NamespaceName) -> None:
        """Remove the anti-affinity group."""
        self._http.delete(f"{owner_path(namespace)}/antiAffinity")

    def bookie_affinity_group(self, namespace: NamespaceName) -> Json | None:
        """Return the BookieAffinityGroup; None if there is none."""
        found: Json | None = self._http.get(f"{owner_path(namespace)}/persistence/bookieAffinity")
        return found

    def set_bookie_affinity_group(self, namespace: NamespaceName, group: Json) -> None:
        """Set the BookieAffinityGroup."""
        self._http.post(f"{owner_path(namespace)}/persistence/bookieAffinity", group)

    def remove_bookie_affinity_group(self, namespace: NamespaceName) -> None:
        """Remove the BookieAffinityGroup."""
        self._http.delete(f"{owner_path(namespace)}/persistence/bookieAffinity")


class TopicDocuments(Noun):
    """Policies of topics with verbs of their own."""

    def all(self, topic: TopicName) -> Json:
        """Return all policies that a topic sets. Apache Pulsar has no such path."""
        return dict(self._http.get(f"{owner_path(topic)}/policies"))

    def clusters(self, topic: TopicName) -> list[str]:
        """Return the clusters that replicate the topic; none if the namespace decides."""
        return list(self._http.get(f"{owner_path(topic)}/replication") or ())

    def set_clusters(self, topic: TopicName, clusters: Sequence[str]) -> None:
        """Set the clusters that replicate the topic."""
        self._http.post(f"{owner_path(topic)}/replication", list(clusters))

    def remove_clusters(self, topic: TopicName) -> None:
        """Let the namespace decide about the clusters that replicate the topic."""
        self._http.delete(f"{owner_path(topic)}/replication")

    def dispatch_rate(self, topic: TopicName, subscription: str) -> Json | None:
        """Return the DispatchRate of one subscription; None if it has none."""
        found: Json | None = self._http.get(_rate_path(topic, subscription))
        return found

    def set_dispatch_rate(self, topic: TopicName, subscription: str, rate: Json) -> None:
        """Set the DispatchRate of one subscription."""
        self._http.post(_rate_path(topic, subscription), rate)

    def remove_dispatch_rate(self, topic: TopicName, subscription: str) -> None:
        """Remove the DispatchRate of one subscription."""
        self._http.delete(_rate_path(topic, subscription))


class PulsarResources(Noun):
    """Resources that Apache Pulsar has and Magnetar does not."""

    def of_namespace(self, kind: str, namespace: NamespaceName) -> list[str]:
        """Return the names of ``functions``, ``sinks``, ``sources`` or ``packages/TYPE`` of a namespace."""
        found = self._http.get(f"/admin/v3/{kind}/{namespace}") or ()
        return [each if isinstance(each, str) else str(each.get("name", each)) for each in found]

    def resource_groups(self) -> list[str]:
        """Return the names of the resource groups."""
        return list(self._http.get("/admin/v2/resourcegroups"))

    def bookies(self) -> list[str]:
        """Return the ids of the bookies."""
        return [str(each["bookieId"]) for each in self._http.get("/admin/v2/bookies/all")["bookies"]]

    def dynamic_settings(self) -> dict[str, str]:
        """Return the settings that were changed while the broker ran."""
        return dict(self._http.get("/admin/v2/brokers/configuration/values") or {})

    def failure_domains(self, cluster: str) -> Json:
        """Return the failure domains of a cluster, by name."""
        return dict(self._http.get(f"{cluster_path(cluster)}/failureDomains") or {})

    def isolation_policies(self, cluster: str) -> Json:
        """Return the isolation policies of a cluster, by name."""
        return dict(self._http.get(f"{cluster_path(cluster)}/namespaceIsolationPolicies") or {})

    def shadow_topics(self, topic: TopicName) -> list[str]:
        """Return the shadow topics of a topic."""
        return list(self._http.get(f"{owner_path(topic)}/shadowTopics") or ())


def _rate_path(topic: TopicName, subscription: str) -> str:
    return f"{owner_path(topic)}/{quote(subscription, safe='')}/dispatchRate"
