"""What may differ between clusters. Pure.

A rule names a tenant with everything in it, ``acme``, or a namespace with its topics, ``acme/orders``; ``*`` stands for
any characters of a name. A field can follow, ``acme/orders#message_ttl_in_seconds``, or a part of one,
``*#backlog_quota_map/message_age``: the rule is about this field of all resources that it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

from magnetar.metasync.documents import MODELS
from magnetar.metasync.records import PARTITIONS
from magnetar.metasync.units import ResourceType, is_divided_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from magnetar.base.names import NamespaceName
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Record

OF_EACH_CLUSTER: dict[ResourceType, frozenset[str]] = {
    ResourceType.TENANTS: frozenset[str](),
    ResourceType.NAMESPACES: frozenset(
        {"/replication_clusters", "/allowed_clusters", "/replicated_subscription_active_cluster"}
    ),
    ResourceType.TOPICS: frozenset({"/deleted"}),
    ResourceType.TOPIC_POLICIES: frozenset({"/replicationClusters", "/replicatedSubscriptionActiveCluster"}),
    ResourceType.ROUTES: frozenset[str](),
}
"""Units that are copied when a cluster gets a resource, and stay its own afterwards.

They need an order between clusters: a cluster that leaves a namespace must not stop its links before the others have
sent what they hold for it, and two active clusters would deliver messages twice. The mark of a topic that is being
deleted stays local like the deletion.
"""

NEEDED = frozenset({"/bundles", PARTITIONS})
"""Units without which no resource can be created. They are copied even if a rule excludes them."""

RULES_MAX = 1_000
"""Maximum number of rules of a kind."""

_RULE = re.compile(r"(?P<tenant>[-=:.\w*]+)(?:/(?P<namespace>[-=:.\w*]+))?(?:#(?P<field>[^#]+))?", re.ASCII)

_FIELDS = frozenset(info.alias or name for model in MODELS.values() for name, info in model.model_fields.items())


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    tenant: re.Pattern[str]
    namespace: re.Pattern[str] | None
    """None: the tenant, and everything in it."""
    unit: str
    """The unit of the field; empty: all of them."""
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule; raises ValueError, which states the reason."""
        found = _RULE.fullmatch(text)
        if found is None:
            message = f"{text!r:.100} is not a rule: expected tenant, tenant/namespace, or one of them with #field"
            raise ValueError(message)
        field = found["field"]
        if field is not None:
            _check_field(text, field)
        namespace = found["namespace"]
        return cls(
            _pattern(found["tenant"]),
            None if namespace is None else _pattern(namespace),
            "" if field is None else f"/{field}",
            text,
        )

    def names(self, resource: Resource) -> bool:
        """Return whether the rule is about a resource."""
        tenant, namespace = _place(resource)
        if not self.tenant.fullmatch(tenant):
            return False
        return self.namespace is None or (namespace is not None and bool(self.namespace.fullmatch(namespace)))

    def needs(self, resource: Resource) -> bool:
        """Return whether the rule is about a resource, or about a namespace of this tenant."""
        if resource.kind is ResourceType.TENANTS:
            return bool(self.tenant.fullmatch(resource.name))
        return self.names(resource)

    def has(self, unit: str) -> bool:
        """Return whether the rule is about a unit of the resources that it names."""
        return not self.unit or unit == self.unit or unit.startswith(f"{self.unit}/")


@dataclass(frozen=True, slots=True)
class Rules:
    """Which resources and units a cluster shares with the others, in both directions."""

    own_namespace: NamespaceName
    """The namespace of the event topic. It comes from the configuration of each cluster."""
    included: tuple[Rule, ...] = ()
    """If there are any, nothing else is shared. A namespace includes its tenant, and a field its resource."""
    excluded: tuple[Rule, ...] = ()
    """They are stronger than ``included``."""

    def covers(self, resource: Resource) -> bool:
        """Return whether any cluster synchronizes a resource."""
        own = str(self.own_namespace)
        if resource.kind is ResourceType.TENANTS:
            return resource.name != self.own_namespace.tenant
        name = resource.name.partition("://")[2] or resource.name
        return name != own and not name.startswith(f"{own}/")

    def includes(self, resource: Resource) -> bool:
        """Return whether this cluster shares the creation and the deletion of a resource."""
        if not self.covers(resource) or any(not rule.unit and rule.names(resource) for rule in self.excluded):
            return False
        return not self.included or any(rule.needs(resource) for rule in self.included)

    def sharing(self, resource: Resource) -> Callable[[str], bool]:
        """Return what tells whether this cluster shares the edits of a unit after the creation of its resource."""
        own, admits = OF_EACH_CLUSTER[resource.kind], self._admitting(resource)
        return lambda unit: unit not in own and admits(unit)

    def copying(self, resource: Resource) -> Callable[[str], bool]:
        """Return what tells whether the value of a unit is shared at the creation of its resource."""
        admits = self._admitting(resource)
        needed = NEEDED if self.includes(resource) else ()
        return lambda unit: unit in needed or admits(unit)

    def shared(self, resource: Resource, record: Record, *, is_new: bool) -> Record:
        """Return the part of a record that this cluster shares; ``is_new``: with what is copied at the creation."""
        shares = self.copying(resource) if is_new else self.sharing(resource)
        return replace(record, edits={unit: edit for unit, edit in record.edits.items() if shares(unit)})

    def to_json(self) -> dict[str, list[str]]:
        """Return the rules as text."""
        return {
            "included": [rule.text for rule in self.included],
            "excluded": [rule.text for rule in self.excluded],
        }

    @classmethod
    def from_json(cls, own_namespace: NamespaceName, value: Mapping[str, Iterable[str]]) -> Self:
        """Parse the result of ``to_json``."""
        included, excluded = (tuple(map(Rule.parse, value[name])) for name in ("included", "excluded"))
        return cls(own_namespace, included, excluded)

    def _admitting(self, resource: Resource) -> Callable[[str], bool]:
        """Return what tells whether the rules admit a unit. The rules of a resource are found once for all units."""
        if not self.includes(resource):
            return lambda _: False
        excluded = [rule for rule in self.excluded if rule.names(resource)]
        included = [rule for rule in self.included if rule.needs(resource)]
        if not excluded and not self.included:
            return lambda _: True

        def admits(unit: str) -> bool:
            if any(rule.has(unit) for rule in excluded):
                return False
            return not self.included or any(rule.has(unit) for rule in included)

        return admits


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse rules that are separated by commas; raises ValueError, which names the first wrong one."""
    texts = [each.strip() for each in text.split(",") if each.strip()]
    if len(texts) > RULES_MAX:
        message = f"{len(texts)} rules, at most {RULES_MAX} are allowed"
        raise ValueError(message)
    return tuple(map(Rule.parse, texts))


def without_own(record: Record) -> Record:
    """Return a record without the units that stay each cluster's own."""
    own = OF_EACH_CLUSTER[record.kind]
    return replace(record, edits={unit: edit for unit, edit in record.edits.items() if unit not in own})


def _place(resource: Resource) -> tuple[str, str | None]:
    """Return the tenant, and the namespace, of a resource."""
    rest = (resource.name.partition("://")[2] or resource.name).partition("/")[2]
    return resource.tenant, rest.partition("/")[0] or None


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", text))))


def _check_field(rule: str, field: str) -> None:
    name, _, inside = field.partition("/")
    if name not in _FIELDS:
        similar = get_close_matches(name, sorted(_FIELDS), n=1)
        hint = f", did you mean {similar[0]}?" if similar else ""
        message = f"{rule!r:.100}: no document of a tenant, namespace or topic has the field {name:.60}{hint}"
        raise ValueError(message)
    if inside and not is_divided_at(f"/{field}"):
        message = f"{rule!r:.100}: {name} is synchronized as a whole, name it without /{inside:.60}"
        raise ValueError(message)
