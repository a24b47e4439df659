"""Random edits of metadata in several clusters, and what must be left of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

from magnetar.admin.client import AdminClient
from magnetar.admin.cluster_metadata.document import Selection
from magnetar.admin.cluster_metadata.reading import read_metadata
from magnetar.metasync.comparison import differences
from tests.kit.messages import read_log
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from magnetar.metasync.comparison import Difference
    from tests.kit.clusters import Group, LocalClusters
    from tests.kit.rest import Rest

EVENT_TOPIC = "persistent://pulsar/metadata/events"
EDITS_AT_ONCE = 100
"""Number of edits between two looks for edits in the same millisecond."""
TIE_TIMEOUT_S = 60
TENANTS = ("delta", "echo")
NAMESPACES = tuple(f"{tenant}/n{number}" for tenant in TENANTS for number in range(3))
PASSING = tuple(f"delta/passing{number}" for number in range(4))
"""Namespaces that are created and deleted again and again."""
TOPICS = tuple(f"{namespace}/t" for namespace in NAMESPACES)

_UNAVAILABLE = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
"""Answers about a resource that came or went in another cluster."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a resource, which is merged separately."""

    owner: str
    """The path of the resource in the REST API."""
    policy: str
    key: str = ""
    """The key of a property, the role of a permission, or the type of a quota."""

    def change(self, rest: Rest, value: Any) -> None:  # noqa: ANN401 - of any policy
        """Set the field; None removes it."""
        path, quota = f"{self.owner}/{self.policy}", f"{self.owner}/backlogQuota?backlogQuotaType={self.key}"
        match self.policy:
            case "property" if value is None:
                rest.delete(f"{path}/{self.key}")
            case "property":
                rest.put(f"{path}/{self.key}/{value}")
            case "permissions":
                rest.call("DELETE" if value is None else "POST", f"{path}/{self.key}", value)
            case "backlogQuota":
                rest.call("DELETE" if value is None else "POST", quota, value)
            case "adminRoles":
                known = rest.get(self.owner)
                rest.post(self.owner, {"adminRoles": value or [], "allowedClusters": known["allowedClusters"]})
            case _ if value is None:
                rest.delete(path)
            case "messageTTL" if self.owner.startswith("persistent"):
                rest.post(f"{path}?messageTTL={value}")
            case _:
                rest.post(path, value)

    def read(self, rest: Rest) -> Any:  # noqa: ANN401
        """Return the value of the field; None if it is not set."""
        match self.policy:
            case "property":
                return rest.get(f"{self.owner}/properties").get(self.key)
            case "permissions":
                return rest.get(f"{self.owner}/permissions").get(self.key)
            case "backlogQuota":
                found = rest.get(f"{self.owner}/backlogQuotaMap").get(self.key)
                return found and {name: found[name] for name in ("limitSize", "limitTime", "policy")}
            case "adminRoles":
                return rest.get(self.owner)["adminRoles"] or None
        return rest.get(f"{self.owner}/{self.policy}")

    def random(self, chance: Random) -> Any:  # noqa: ANN401
        """Return a random value; None sometimes, if the field can be removed."""
        number = chance.randrange(1, 10_000)
        if self.policy != "adminRoles" and chance.random() < 0.15:
            return None
        values = {
            "property": str(number),
            "permissions": [chance.choice(("produce", "consume", "functions"))],
            "backlogQuota": {"limitSize": number, "limitTime": number, "policy": "consumer_backlog_eviction"},
            "adminRoles": [f"role{number}"],
            "retention": {"retentionTimeInMinutes": number, "retentionSizeInMB": number},
            "deduplication": chance.random() < 0.5,
        }
        return values.get(self.policy, number)


def fields() -> list[Field]:
    """Return all fields that are edited."""
    found = [Field(f"tenants/{tenant}", "adminRoles") for tenant in TENANTS]
    for name in NAMESPACES:
        owner = f"namespaces/{name}"
        found += [Field(owner, policy) for policy in ("messageTTL", "maxProducersPerTopic", "deduplication")]
        found += [Field(owner, "property", f"key{number}") for number in range(6)]
        found += [Field(owner, "permissions", f"role{number}") for number in range(3)]
        found += [Field(owner, "backlogQuota", "message_age")]
    for name in TOPICS:
        found += [Field(f"persistent/{name}", policy) for policy in ("messageTTL", "maxProducers")]
    return found


def register(clusters: LocalClusters, name: str) -> None:
    """Tell a cluster the addresses of the others: all that it needs to join."""
    for other, member in clusters.members.items():
        addresses = {"serviceUrl": member.admin_url, "brokerServiceUrl": member.service_url}
        clusters.rest(name).ensure(f"clusters/{other}", addresses)


class Edits:
    """Makes random edits. Every second field is edited in one cluster only."""

    def __init__(self, group: Group, names: Sequence[str], chance: Random) -> None:
        """Edit in the clusters ``names`` of ``group``; its other members may join later."""
        self._group = group
        self._names = names
        self._chance = chance
        self._fields = fields()
        self._owners = {each: chance.choice(names) for number, each in enumerate(self._fields) if number % 2}
        self._last: dict[Field, dict[str, Any]] = {}
        """By field, the last value that each cluster set."""
        self._partitions = dict.fromkeys(TOPICS, 1)
        self.count = 0
        """Number of edits."""

    def create(self) -> None:
        """Create the tenants, namespaces and topics in the first cluster."""
        rest, members = self._group.rest(self._names[0]), list(self._group.members)
        for tenant in TENANTS:
            rest.put(f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": members})
        for namespace in NAMESPACES:
            rest.put(f"namespaces/{namespace}", {"replication_clusters": members})
        for topic in TOPICS:
            rest.put(f"persistent/{topic}/partitions", 1)

    def exist_in(self, name: str) -> bool:
        """Return whether a cluster has all that was created."""
        rest = self._group.rest(name)
        paths = [f"namespaces/{namespace}" for namespace in NAMESPACES]
        found = [
            rest.request("GET", path) for path in (*paths, *(f"persistent/{topic}/partitions" for topic in TOPICS))
        ]
        return all(answer.is_success and answer.text != '{"partitions":0}' for answer in found)

    def make(self, count: int) -> None:
        """Make ``count`` edits in random clusters."""
        for _ in range(count):
            self.count += 1
            kind = self._chance.random()
            if kind < 0.05:
                self._grow()
            elif kind < 0.15:
                self._come_or_go()
            else:
                self._change()

    def _change(self) -> None:
        field = self._chance.choice(self._fields)
        name = self._owners.get(field) or self._chance.choice(self._names)
        value = field.random(self._chance)
        field.change(self._group.rest(name), value)
        self._last.setdefault(field, {})[name] = value

    def _grow(self) -> None:
        """Add a partition, in a cluster that has as many as all others, or fewer."""
        topic, rest = self._chance.choice(TOPICS), self._group.rest(self._chance.choice(self._names))
        path = f"persistent/{topic}/partitions"
        partitions = rest.get(path)["partitions"] + 1
        if partitions <= 4:  # each partition is a topic in each cluster
            rest.post(path, partitions)
            self._partitions[topic] = max(self._partitions[topic], partitions)

    def _come_or_go(self) -> None:
        namespace, rest = self._chance.choice(PASSING), self._group.rest(self._chance.choice(self._names))
        method = self._chance.choice(("PUT", "DELETE"))
        response = rest.request(method, f"namespaces/{namespace}", {} if method == "PUT" else None)
        assert response.is_success or response.status_code in _UNAVAILABLE, response.text

    def lost(self, name: str) -> list[str]:
        """Return the edits that are lost in a cluster: their fields, with the values there and all allowed ones.

        A field that was edited in one cluster has its last value. Otherwise it has the last value of a cluster.
        """
        rest = self._group.rest(name)
        found = [
            f"{field}: {value}, expected one of {by_cluster}"
            for field, by_cluster in self._last.items()
            if (value := field.read(rest)) not in by_cluster.values()
        ]
        for topic, partitions in self._partitions.items():
            if (present := rest.get(f"persistent/{topic}/partitions")["partitions"]) != partitions:
                found.append(f"{topic}: {present} partitions, expected {partitions}")
        return found

    @property
    def edited_in_one_cluster(self) -> int:
        """Number of fields that one cluster edited, so that exactly its last value must be there."""
        return sum(len(by_cluster) == 1 for by_cluster in self._last.values())


def disagreements(group: Group, names: Iterable[str]) -> list[Difference]:
    """Return the differences between the edited metadata of clusters, but for fields that belong to each cluster."""
    found = {}
    for name in names:
        with AdminClient(group.members[name].admin_url) as client:
            found[name] = read_metadata(client, Selection(TENANTS)).resources
    return [each for each in differences(found) if each.allowed is None]


def at_the_same_time(group: Group, names: tuple[str, str], namespace: str) -> list[str]:
    """Set properties of a namespace in two separated clusters at the same time, to the name of the cluster.

    Ends when one has the same time in milliseconds in both. Returns the names of all.
    """
    keys: list[str] = []

    def is_tied() -> bool:
        keys.extend(added := [f"tie{len(keys) + number}" for number in range(EDITS_AT_ONCE)])
        _edit_at_once(group, names, namespace, added)
        made = [timestamps(group, name, added) for name in names]
        return any(made[0][key][names[0]] == made[1][key][names[1]] for key in added)

    wait_until(is_tied, TIE_TIMEOUT_S, what="edits in the same millisecond", interval_s=0)
    return keys


def _edit_at_once(group: Group, names: tuple[str, str], namespace: str, keys: Sequence[str]) -> None:
    barrier = Barrier(len(names))

    def edit(name: str) -> None:
        rest = group.rest(name)
        for key in keys:
            barrier.wait()
            rest.put(f"namespaces/{namespace}/property/{key}/{name}")

    threads = [Thread(target=edit, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def timestamps(group: Group, name: str, keys: Iterable[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return, by property and by cluster, time and counter of its edit, from the event topic in a cluster."""
    found: dict[str, dict[str, tuple[int, int]]] = {key: {} for key in keys}
    for message in read_log(group.client(name), EVENT_TOPIC):
        edits: Mapping[str, list[Any]] = json.loads(message.data())["data"]["edits"]
        for key, of_clusters in found.items():
            if (edit := edits.get(f"/properties/{key}")) is not None:
                _, time_ms, counter, cluster = edit
                of_clusters[cluster] = (time_ms, counter)
    return found


def winner(edits: Mapping[str, tuple[int, int]]) -> str:
    """Return the cluster whose edit counts, by the rule of PIP-136: the later one, then the smaller cluster."""
    latest = max(edits.values())
    return min(name for name, timestamp in edits.items() if timestamp == latest)
