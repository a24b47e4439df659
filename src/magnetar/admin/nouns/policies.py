"""The noun of the client for policies of namespaces and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.nouns.noun import Json, Noun
from magnetar.admin.paths import owner_path
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.metadata.policy.description import Level


class Policies(Noun):
    """Policies of namespaces and topics; those of a topic override those of its namespace."""

    def get(self, owner: NamespaceName | TopicName, policy: Policy, **flags: bool) -> Any:  # noqa: ANN401
        """Return the policy of the owner, None if unset. Of a topic: ``applied``: in effect; ``isGlobal``: for all."""
        return self._http.get(_policy_path(owner, policy), **{name: True for name, given in flags.items() if given})

    def set(self, owner: NamespaceName | TopicName, policy: Policy, value: object = None) -> None:
        """Set a policy; the type of the value depends on the policy."""
        if policy is Policy.MESSAGE_TTL and isinstance(owner, TopicName) and isinstance(value, int):
            self._http.post(_policy_path(owner, policy), messageTTL=value)
        else:
            send = self._http.put if level_of(owner, policy).method == "PUT" else self._http.post
            send(_policy_path(owner, policy), value)

    def set_retention(self, owner: NamespaceName | TopicName, *, minutes: int, megabytes: int) -> None:
        """Set the limits for acknowledged messages that are kept; -1: no limit; 0 for both keeps none."""
        retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        self.set(owner, Policy.RETENTION, retention)

    def custody(self, namespace: NamespaceName) -> dict[str, str]:
        """Return, by cluster that has left a namespace, the cluster that carries its messages."""
        return dict(self.get(namespace, Policy.CUSTODY) or {})

    def set_custody(self, namespace: NamespaceName, custody: Mapping[str, str]) -> None:
        """Set the clusters that carry the messages of those that have left a namespace."""
        self.set(namespace, Policy.CUSTODY, dict(custody))

    def remove(self, owner: NamespaceName | TopicName, policy: Policy) -> None:
        """Remove a policy, so that the value of the level above applies."""
        level = level_of(owner, policy)
        self._http.delete(f"{owner_path(owner)}/{level.removal or level.path}")

    def backlog_quotas(self, owner: NamespaceName | TopicName, **flags: bool) -> Json:
        """Return the BacklogQuota by type, ``destination_storage`` and ``message_age``; flags as in ``get``."""
        parameters = {name: True for name, given in flags.items() if given}
        return dict(self._http.get(f"{owner_path(owner)}/backlogQuotaMap", **parameters))

    def set_backlog_quota(
        self, owner: NamespaceName | TopicName, kind: str, policy: str, *, limit_size: int = -1, limit_time: int = -1
    ) -> None:
        """Set the action ``policy`` at ``limit_size`` bytes of backlog, or a message age of ``limit_time`` seconds."""
        quota = {"limitSize": limit_size, "limitTime": limit_time, "policy": policy}
        self._http.post(f"{owner_path(owner)}/backlogQuota", quota, backlogQuotaType=kind)

    def remove_backlog_quota(self, owner: NamespaceName | TopicName, kind: str) -> None:
        """Remove the backlog quota of a type."""
        self._http.delete(f"{owner_path(owner)}/backlogQuota", backlogQuotaType=kind)


def level_of(owner: NamespaceName | TopicName, policy: Policy) -> Level:
    """Return the description of a policy for the type of its owner."""
    level = policy.topic if isinstance(owner, TopicName) else policy.namespace
    assert level is not None
    return level


def _policy_path(owner: NamespaceName | TopicName, policy: Policy) -> str:
    return f"{owner_path(owner)}/{level_of(owner, policy).path}"
