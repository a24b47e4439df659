"""Edits: administration changes tenants, namespaces, policies, partitions and policies of topics in all clusters."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

from magnetar.base.errors import MagnetarError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policies import AuthPolicies, BundlesData, Policies, TenantInfo
from magnetar.metadata.policy.values import BacklogQuota, DispatchRate, RetentionPolicies
from magnetar.metadata.routes.document import StoredRoute
from magnetar.metadata.routes.table import Route, next_epoch
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from magnetar.sim.metasync.simulation import MetadataSimulation
    from magnetar.sim.metasync.site import SynchronizedSite
    from magnetar.sim.simulation import Simulation

    Edit = Callable[["SynchronizedSite"], Coroutine[Any, Any, object]]

TENANTS = ("acme", "umbrella", "public")
NAMESPACES = ("bills", "orders", "default")
TOPICS = ("a", "b c")

SCOPES = ("acme", "acme/orders", "persistent://acme/orders/b c")
"""Scopes of routes."""

PARTITIONS_MAX = 5
"""Maximum number of partitions of a topic."""

DUEL_MS = (0, 0, 0, 1, 400)
"""Milliseconds between the clocks of two clusters that make the same edit."""

QUOTAS = ("destination_storage", "message_age")
ROLES = ("admin", "a/b~c")
ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")


class MetadataGroup(ActionGroup):
    """A group of actions in a world of metadata."""

    @property
    def world(self) -> MetadataSimulation:
        """Return the simulation."""
        return cast("MetadataSimulation", self.simulation)

    def some_site(self) -> SynchronizedSite | None:
        """Return a random running member."""
        running = self.world.running_members()
        return self.chance.choice(running) if running else None


class Edits(MetadataGroup):
    """See the module. Values are numbered, so that they differ."""

    name = "edits"
    counted = ("edit refused",)

    def __init__(self, simulation: Simulation) -> None:
        """Begin with number 1."""
        super().__init__(simulation)
        self._numbers = itertools.count(1)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("tenant created", 2, lambda: self._in_one(self._create_tenant)),
            Action("tenant changed", 2, lambda: self._in_one(self._change_tenant)),
            Action("tenant deleted", 0.5, lambda: self._in_one(self._delete_tenant)),
            Action("namespace created", 4, lambda: self._in_one(self._create_namespace)),
            Action("policies changed", 14, lambda: self._in_one(self._change_policies)),
            Action("namespace deleted", 1.5, lambda: self._in_one(self._delete_namespace)),
            Action("clusters of a namespace changed in one cluster", 0.7, lambda: self._in_one(self._change_own)),
            Action("partitions created or added", 3, lambda: self._in_one(self._grow)),
            Action("partitioned topic deleted in one cluster", 1, lambda: self._in_one(self._delete_topic)),
            Action("policies of a topic changed", 5, lambda: self._in_one(self._change_topic_policies)),
            Action("route changed", 2, lambda: self._in_one(self._change_route)),
            Action("the same policy changed in two clusters at the same time", 2, self._duel),
        )

    def begin(self) -> None:
        """Create a first tenant with a namespace."""
        self._in_one(self._create_tenant)

    # -- running edits ----------------------------------------------------------------------------------------------

    def edit_one(self) -> SynchronizedSite | None:
        """Change policies in a random cluster, and return it; None if no broker runs."""
        site = self.some_site()
        if site is not None:
            self._start(site, self._change_policies)
        return site

    def delete_one(self) -> None:
        """Delete a namespace in a random cluster, if there is one without topics."""
        self._in_one(self._delete_namespace)

    def _in_one(self, edit: Edit) -> bool:
        site = self.some_site()
        if site is not None:
            self._start(site, edit)
        return site is not None

    def _start(self, site: SynchronizedSite, edit: Edit) -> None:
        async def run() -> None:
            try:
                await edit(site)
            except MagnetarError as error:  # the operator gets the error
                self.simulation.count("edit refused")
                self.simulation.note(site.name, f"an edit is refused: {error!r:.200}")

        site.loop.create_task(run())

    def _note(self, site: SynchronizedSite, what: str) -> None:
        self.simulation.note(site.name, what)

    # -- tenants and namespaces -------------------------------------------------------------------------------------

    async def _create_tenant(self, site: SynchronizedSite) -> None:
        tenants, name = site.environment.resources.tenants, self.chance.choice(TENANTS)
        if not tenants.exists(name):
            info = TenantInfo(adminRoles=[f"role-{next(self._numbers)}"], allowedClusters=list(self.simulation.sites))
            self._note(site, f"creates tenant {name} {info.adminRoles}")
            await tenants.create(name, info)
        await self._create_namespace_in(site, name)

    async def _change_tenant(self, site: SynchronizedSite) -> None:
        tenants, name = site.environment.resources.tenants, self.chance.choice(TENANTS)
        if tenants.exists(name):
            roles = [f"role-{next(self._numbers)}"] * (self.chance.random() < 0.8)
            self._note(site, f"changes tenant {name} {roles}")
            await tenants.update(name, lambda found: found.model_copy(update={"adminRoles": roles}))

    async def _delete_tenant(self, site: SynchronizedSite) -> None:
        resources, name = site.environment.resources, self.chance.choice(TENANTS)
        if resources.tenants.exists(name) and not resources.namespaces.of_tenant(name):
            self._note(site, f"deletes tenant {name}")
            await resources.tenants.delete(name)

    async def _create_namespace(self, site: SynchronizedSite) -> None:
        await self._create_namespace_in(site, self.chance.choice(TENANTS))

    async def _create_namespace_in(self, site: SynchronizedSite, tenant: str) -> None:
        resources = site.environment.resources
        namespace = NamespaceName(tenant, self.chance.choice(NAMESPACES))
        if not resources.tenants.exists(tenant) or resources.namespaces.exists(namespace):
            return
        policies = Policies(replication_clusters=list(self.simulation.sites), bundles=BundlesData.of(4))
        for _ in range(self.chance.randrange(3)):
            policies = policies.model_copy(update=self._new_policy(policies))
        self._note(site, f"creates namespace {namespace}")
        await resources.namespaces.create(namespace, policies)

    async def _delete_namespace(self, site: SynchronizedSite) -> None:
        resources = site.environment.resources
        found = self._namespace(site)
        if found is None or any(True for _ in resources.partitioned_topics.of_namespace(found)):
            return
        self._note(site, f"deletes namespace {found}")
        await resources.namespaces.delete(found)

    def _namespace(self, site: SynchronizedSite) -> NamespaceName | None:
        namespaces = site.environment.resources.namespaces
        found = [each for tenant in TENANTS for each in namespaces.of_tenant(tenant)]
        return self.chance.choice(found) if found else None

    # -- policies ---------------------------------------------------------------------------------------------------

    async def _change_policies(self, site: SynchronizedSite) -> None:
        namespace = self._namespace(site)
        if namespace is not None:
            await self._set_policies(site, namespace, self.chance.randint(1, 2))

    async def _set_policies(self, site: SynchronizedSite, namespace: NamespaceName, fields: int) -> None:
        def change(policies: Policies) -> Policies:
            for _ in range(fields):
                update = self._new_policy(policies)
                self._note(site, f"changes {namespace}: {update!r:.150}")
                policies = policies.model_copy(update=update)
            return policies

        await site.environment.resources.namespaces.update(namespace, change)

    def _new_policy(self, policies: Policies) -> dict[str, Any]:
        """Return a new value of a random field; a quarter of them removes it."""
        number, chance = next(self._numbers), self.chance
        is_removed = chance.random() < 0.25
        quota = BacklogQuota(limitSize=number, limitTime=number, policy="producer_exception")
        retention = RetentionPolicies(retentionTimeInMinutes=number, retentionSizeInMB=number)
        rate = DispatchRate(dispatchThrottlingRateInMsg=number)
        cluster = chance.choice(list(self.simulation.sites))
        text = None if is_removed else str(number)
        permissions = self._new_permission(policies.auth_policies, number, is_removed=is_removed)
        updates: tuple[dict[str, Any], ...] = (
            {"message_ttl_in_seconds": None if is_removed else number},
            _changed("backlog_quota_map", policies, chance.choice(QUOTAS), None if is_removed else quota),
            _changed("properties", policies, chance.choice(ROLES), text),
            {"auth_policies": permissions},
            {"bundles": BundlesData.between([0, number * 1000, 2**32 - 1])},
            {"retention_policies": None if is_removed else retention},
            _changed("topicDispatchRate", policies, cluster, None if is_removed else rate),
            {"deduplicationEnabled": chance.choice((None, True, False))},
            {"is_allow_auto_update_schema": chance.random() < 0.5},
            {"of_a_later_version": None if is_removed else {"number": number}},
        )
        return chance.choice(updates)

    def _new_permission(self, auth: AuthPolicies, number: int, *, is_removed: bool) -> AuthPolicies:
        if self.chance.random() < 0.5:
            actions = [each for bit, each in enumerate(ACTIONS) if number >> bit & 1]
            update = _changed("namespace_auth", auth, self.chance.choice(ROLES), None if is_removed else actions)
        else:
            roles = [f"role-{number}"]
            update = _changed("subscription_auth_roles", auth, self.chance.choice(ROLES), None if is_removed else roles)
        return auth.model_copy(update=update)

    async def _change_own(self, site: SynchronizedSite) -> None:
        namespace = self._namespace(site)
        if namespace is not None:
            others = [name for name in self.simulation.sites if name != site.name]
            clusters = [site.name, *self.chance.sample(others, self.chance.randint(0, len(others)))]
            self._note(site, f"changes the clusters of {namespace} to {clusters}")
            namespaces = site.environment.resources.namespaces
            await namespaces.update(namespace, lambda old: old.model_copy(update={"replication_clusters": clusters}))

    def _duel(self) -> bool:
        """PIP-136's example: the clocks show the same time, or the second one a little more, later than any clock."""
        running = self.world.running_members()
        now = self.simulation.scheduler.now
        ready = [site for site in running if site.loop.stopped_until <= now]
        if len(ready) < 2:
            return False
        sites, gap_ms = self.chance.sample(ready, 2), self.chance.choice(DUEL_MS)
        namespace = self._namespace(sites[0])
        if namespace is None or not sites[1].environment.resources.namespaces.exists(namespace):
            return False
        highest = max(site.clock.highest for site in self.world.synchronized.values())
        for site, after_ms in zip(sites, (1.5, 1.5 + gap_ms), strict=True):
            site.set_clock(site.clock.jumped_s + int(highest * 1000) / 1000 + after_ms / 1000 - site.clock.now())
            ttl_s = next(self._numbers)
            self._note(site, f"sets the TTL of {namespace} to {ttl_s} at {site.clock.now():.4f}")
            self._start(site, lambda site, ttl_s=ttl_s: self._set_ttl(site, namespace, ttl_s))  # type: ignore[misc]
        return True

    async def _set_ttl(self, site: SynchronizedSite, namespace: NamespaceName, ttl_s: int) -> None:
        update = {"message_ttl_in_seconds": ttl_s}
        await site.environment.resources.namespaces.update(namespace, lambda old: old.model_copy(update=update))

    # -- routes -----------------------------------------------------------------------------------------------------

    async def _change_route(self, site: SynchronizedSite) -> None:
        routes, scope = site.environment.resources.routes, self.chance.choice(SCOPES)
        known = routes.get(scope)
        cluster = None if self.chance.random() < 0.2 else self.chance.choice(list(self.simulation.sites))
        route = Route(cluster, next_epoch(None if known is None else known.value, int(site.clock.now() * 1000)))
        self._note(site, f"changes the route of {scope}: {route}")
        await routes.put(scope, StoredRoute.of(route))

    # -- topics -----------------------------------------------------------------------------------------------------

    def _topic(self, site: SynchronizedSite) -> TopicName | None:
        namespace = self._namespace(site)
        if namespace is None:
            return None
        return TopicName("persistent", namespace.tenant, namespace.namespace, self.chance.choice(TOPICS))

    async def _grow(self, site: SynchronizedSite) -> None:
        topic = self._topic(site)
        if topic is not None:
            known = site.topics.partitions_of(topic) or 0
            partitions = min(known + self.chance.randint(1, 2), PARTITIONS_MAX)
            self._note(site, f"gives {topic} {partitions} partitions")
            await site.topics.partitioned.grow(topic, partitions)

    async def _delete_topic(self, site: SynchronizedSite) -> None:
        topic, partitioned = self._topic(site), site.topics.partitioned
        if topic is not None and site.environment.resources.partitioned_topics.exists(topic):
            self._note(site, f"deletes {topic}")
            async with partitioned.alone(topic):
                await partitioned.delete(topic, lambda _: None)

    async def _change_topic_policies(self, site: SynchronizedSite) -> None:
        topic, policies = self._topic(site), site.environment.resources.topic_policies
        if topic is None:
            return
        number, is_removed = next(self._numbers), self.chance.random() < 0.25
        found = policies.get(topic)
        quotas: dict[Any, BacklogQuota] = dict(found.backLogQuotaMap) if found is not None else {}
        kind = self.chance.choice(QUOTAS)
        if is_removed:
            quotas.pop(kind, None)
        else:
            quotas[kind] = BacklogQuota(limitSize=number, policy="producer_exception")
        update: dict[str, Any] = self.chance.choice(
            (
                {"maxMessageSize": None if is_removed else number},
                {"messageTTLInSeconds": None if is_removed else number},
                {"backLogQuotaMap": quotas},
            )
        )
        self._note(site, f"changes policies of {topic}: {update!r:.150}")
        await policies.change(topic, **update)


def _changed(field: str, document: object, key: str, value: object) -> dict[str, Any]:
    """Return an object field of a document with another value of ``key``; None removes it."""
    found = dict(getattr(document, field))
    found.pop(key, None)
    return {field: found if value is None else {**found, key: value}}
