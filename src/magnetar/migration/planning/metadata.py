"""Findings about metadata, from the difference between both clusters. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from magnetar.admin.metadata_import.changes import Reason
from magnetar.migration.planning.findings import Area, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from magnetar.admin.metadata_import.changes import Change, Plan, Remark
    from magnetar.migration.planning.facts import ClusterFacts
    from magnetar.migration.scope import Scope

_AREAS: Final = {"Schemas": Area.SCHEMAS, "Topics": Area.PARTITIONS}
"""Areas by kind of resource; others are policies."""

_PROPERTIES, _PERMISSIONS = "/properties", "/auth_policies"

_SET_BY_THE_MIGRATION: Final = ("/replication_clusters", "/replicationClusters", "/allowedClusters", "/bundles")
"""Beginnings of the fields that may differ: the migration sets them, or they have no effect on messages."""

_CONFLICTS: Final = {
    Area.SCHEMAS: "delete the schema of the target, if it is not needed: magnetar{options} schemas delete TOPIC",
    Area.PARTITIONS: "delete the topic of the target, if it is not needed, or add partitions to that of the source",
}


def metadata_findings(plan: Plan, scope: Scope, source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    """Yield the findings of a plan that makes the metadata of the target those of the source."""
    for change in plan.changes:
        yield from _of_change(change, target)
    for remark in plan.remarks:
        if _is_in(remark.name, scope):
            yield from _of_remark(remark, source, target)


def other_clusters(
    namespaces: Mapping[str, Sequence[str]],
    in_target: Mapping[str, Sequence[str]],
    source: ClusterFacts,
    target: ClusterFacts,
) -> Iterator[Finding]:
    """Yield the namespaces that further clusters replicate; the arguments are the clusters of each namespace."""
    for name, clusters in sorted(namespaces.items()):
        others = [each for each in clusters if each not in (source.name, target.name, *in_target.get(name, ()))]
        unknown = [each for each in others if each not in target.registered]
        if unknown:
            problem = "the target does not know further clusters that replicate the namespace"
            fix = f"register them: magnetar{target.options} clusters create CLUSTER --url URL --broker-url URL"
            yield Finding(Severity.BLOCKER, Area.CLUSTERS, name, problem, fix, ", ".join(unknown))
        if others:
            problem = "further clusters replicate the namespace: the target gets their messages from them only"
            fix = "register the target in each of them, and add it there: magnetar namespaces set-clusters"
            yield Finding(Severity.WARNING, Area.CLUSTERS, name, problem, fix, ", ".join(others))


def allowed_clusters(namespaces: Mapping[str, Sequence[str]], target: ClusterFacts) -> Iterator[Finding]:
    """Yield the namespaces that do not allow the target; the argument has their ``allowed_clusters``."""
    for name, allowed in sorted(namespaces.items()):
        if allowed and target.name not in allowed:
            problem = "the namespace does not allow the target"
            fix = f"add {target.name} to its allowedClusters in the source"
            yield Finding(Severity.BLOCKER, Area.CLUSTERS, name, problem, fix, f"it allows {', '.join(allowed)}")


def _of_change(change: Change, target: ClusterFacts) -> Iterator[Finding]:
    if change.field.startswith((_PROPERTIES, *_SET_BY_THE_MIGRATION)):
        return
    area = Area.PERMISSIONS if change.field.startswith(_PERMISSIONS) else _AREAS.get(change.kind, Area.POLICIES)
    field = change.field.removeprefix("/")
    if change.before is not None and change.field:
        problem = f"{field}: the value of the target is replaced by that of the source"
        detail = f"{_shown(change.before)} becomes {_shown(change.after)}"
        yield Finding(Severity.WARNING, area, change.name, problem, "set the value that both shall have", detail)
    if not change.has_effect or area is Area.PERMISSIONS:
        if area is Area.PERMISSIONS:
            problem, fix = "permissions are stored in the target", "compare the permissions of both clusters"
            if target.settings.get("authorizationEnabled") != "true":
                problem += " without an effect"
                fix = "let only trusted clients reach the ports of the target"
        else:
            problem, fix = f"{field} is stored in the target without an effect", "find out whether it is needed"
        yield Finding(Severity.WARNING, area, change.name, problem, fix, _shown(change.after))


def _of_remark(remark: Remark, source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    area = _AREAS.get(remark.kind, Area.POLICIES)
    field = remark.field.removeprefix("/")
    match remark.reason:
        case Reason.CONFLICT:
            fix = _CONFLICTS[area].format(options=target.options)
            problem = "the schemas differ" if area is Area.SCHEMAS else "the partitions differ"
            yield Finding(Severity.BLOCKER, area, remark.name, problem, fix, remark.detail)
        case Reason.NO_COUNTERPART:
            what = field or remark.kind
            problem = f"{what}: Magnetar has nothing like it"
            fix = "find out whether the applications need it (guide: From Apache Pulsar)"
            yield Finding(Severity.WARNING, area, remark.name, problem, fix, remark.detail)
        case Reason.ONLY_IN_TARGET:
            problem = f"{remark.kind}: only the target has it; it stays"
            fix = f"delete it in {target.name}, if it is not needed, before clients of {source.name} see it"
            yield Finding(Severity.NOTE, Area.NAMES, remark.name, problem, fix)
        case Reason.OF_EACH_CLUSTER if not remark.field.startswith(_SET_BY_THE_MIGRATION):
            problem, fix = f"{field} belongs to each cluster, and differs", "set the value in the target"
            yield Finding(Severity.WARNING, area, remark.name, problem, fix, remark.detail)


def _is_in(name: str, scope: Scope) -> bool:
    """Return whether a resource belongs to the tenant. Clusters also have resources without a tenant."""
    path = name.partition("://")[2] or name
    return path == scope.tenant or path.startswith(f"{scope.tenant}/")


def _shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return "not set" if value is None else str(value)
