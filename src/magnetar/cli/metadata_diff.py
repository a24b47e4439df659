"""``magnetar metadata diff``: differences between the metadata of clusters."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.admin.client import AdminClient
from magnetar.admin.cluster_metadata.document import Selection
from magnetar.admin.cluster_metadata.reading import if_present, read_metadata
from magnetar.base.errors import AdminError, ConfigurationError, InvalidTopicNameError, MagnetarError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, say, show_json, show_table
from magnetar.cli.profile_store import load_profiles
from magnetar.cli.session import names
from magnetar.metasync.comparison import EXISTENCE, belongs_to_each_cluster, differences, permitted, renamed
from magnetar.metasync.rules import Rules, parse_rules
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.admin.cluster_metadata.document import ClusterMetadata
    from magnetar.metasync.comparison import Difference, Exemption
    from magnetar.metasync.places import Resource
    from magnetar.metasync.units import Document

EVENT_TOPIC = "belongs to the event topic"
"""The reason why the namespace of the event topic may differ."""

EXCLUDED = "excluded by a rule"
"""The reason why a field that the rules of a cluster name may differ."""

LOCAL = {"edit": "local", "dropped": "not allowed by the tenant"}
"""Reasons why something may differ, by those that the cluster gives."""

KINDS = {
    ResourceType.TENANTS: "tenant",
    ResourceType.NAMESPACES: "namespace",
    ResourceType.TOPICS: "partitioned topic",
    ResourceType.TOPIC_POLICIES: "policies of topic",
}

Clusters = Annotated[list[str], typer.Argument(metavar="CLUSTER...", help="Profiles or admin URLs, at least two.")]
Only = Annotated[str, typer.Option("--only", help="Only these tenants and namespaces, separated by commas.")]
Rename = Annotated[
    str,
    typer.Option(
        "--rename",
        help="Names of clusters to be read as other ones, as old=new separated by commas; for a copy of a cluster that "
        "has another name.",
    ),
]


def diff(clusters: Clusters, *, only: Only = "", rename: Rename = "", output: OutputForm = Output.TEXT) -> None:
    """Compare the tenants, namespaces, policies, partitions and policies of topics of clusters, field by field.

    Fields that belong to each cluster, or differ by its rules or local changes, are shown, and may differ. Exit codes
    are those of diff(1): 0 no differences, 1 differences, 2 trouble. Works with Apache Pulsar, too.
    """
    try:
        found = _found(clusters, selection_of(only), _renames(rename))
    except MagnetarError as error:
        raise FailedError(Failure.of_text(str(error), ExitCode.USAGE)) from error
    _show(found, output)
    if any(each.allowed is None for each in found):
        raise typer.Exit(1)


def _found(clusters: Sequence[str], selection: Selection, renames: Mapping[str, str]) -> list[Difference]:
    if len(clusters) < 2:  # noqa: PLR2004 - fewer cannot be compared
        message = "at least two clusters are needed\nhint: name profiles or admin URLs: magnetar metadata diff ewr jfk"
        raise ConfigurationError(message)
    repeated = [each for index, each in enumerate(clusters) if each in clusters[:index]]
    if repeated:
        message = f"{repeated[0]} is given twice"
        raise ConfigurationError(message)
    read: dict[str, dict[Resource, Document]] = {}
    own: set[NamespaceName] = set()
    exemptions: dict[str, Exemption] = {}
    with ExitStack() as opened:
        for text in clusters:
            client = opened.enter_context(admin_of(text))
            metadata = read_metadata(client, selection)
            name = _name(text, metadata, read)
            read[name] = renamed(metadata.resources, renames)
            topic = _event_topic(client)
            if topic is not None:
                own.add(topic.namespace_name)
                exemptions[name] = _exemption(client, topic)

    def allowed(resource: Resource, unit: str) -> str | None:
        return EVENT_TOPIC if _is_in(resource, own) else belongs_to_each_cluster(resource, unit)

    return [permitted(each, exemptions) for each in differences(read, allowed)]


def admin_of(cluster: str) -> AdminClient:
    """Return a client of a cluster, given by its admin URL or by a profile; raises ConfigurationError."""
    if "://" in cluster:
        return AdminClient(cluster)
    profile = load_profiles().named(cluster)
    return AdminClient(profile.admin_url, credentials=profile.credentials)


def _name(text: str, metadata: ClusterMetadata, taken: Mapping[str, object]) -> str:
    """Return the profile or the name of a cluster, or what the user wrote if another one has that name."""
    name = metadata.cluster if "://" in text else text
    return text if name in taken else name


def _event_topic(client: AdminClient) -> TopicName | None:
    """Return the event topic, if the metadata synchronizer is on."""
    try:
        status = if_present(client.metadata_sync.status)
    except AdminError:
        return None  # it is off
    return TopicName.parse(status["eventTopic"]) if status else None


def _exemption(client: AdminClient, topic: TopicName) -> Exemption:
    """Return what tells why a unit differs in a cluster: by its rules, or by a local change."""
    settings = client.brokers.runtime_configuration()
    try:
        included, excluded = (
            parse_rules(settings.get(f"metadataSync{which}Resources", "")) for which in ("Included", "Excluded")
        )
    except ValueError as error:
        message = f"{client.url} has a rule that this version does not know: {error}\nhint: use its version of magnetar"
        raise ConfigurationError(message) from None
    rules = Rules(topic.namespace_name, included, excluded)
    local = {
        (each["resourceType"], each["resourceName"], f"/{each['field']}" if each["field"] else EXISTENCE): each[
            "reason"
        ]
        for each in client.metadata_sync.local()
    }

    def exemption(resource: Resource, unit: str) -> str | None:
        shares = rules.includes(resource) if unit == EXISTENCE else rules.sharing(resource)(unit)
        if not shares:
            return EXCLUDED
        key = resource.kind.value, resource.name
        reason = local.get((*key, unit)) or local.get((*key, EXISTENCE))
        return LOCAL.get(reason, reason) if reason else None

    return exemption


def _is_in(resource: Resource, namespaces: set[NamespaceName]) -> bool:
    match resource.kind:
        case ResourceType.TENANTS:
            return any(resource.name == each.tenant for each in namespaces)
        case ResourceType.NAMESPACES:
            return NamespaceName.parse(resource.name) in namespaces
        case _:
            return TopicName.parse(resource.name).namespace_name in namespaces


def selection_of(only: str) -> Selection:
    """Return the tenants and namespaces that an option names; raises ConfigurationError."""
    tenants, namespaces = [], []
    for each in names(only):
        if "/" in each:
            try:
                namespaces.append(NamespaceName.parse(each))
            except InvalidTopicNameError as error:
                raise ConfigurationError(str(error)) from None
        else:
            tenants.append(each)
    return Selection(tuple(tenants), tuple(namespaces))


def _renames(rename: str) -> dict[str, str]:
    found = {}
    for each in names(rename):
        old, separator, new = each.partition("=")
        if not (old and separator and new):
            message = f"--rename {each}: expected old=new"
            raise ConfigurationError(message)
        found[old] = new
    return found


def _show(found: Sequence[Difference], output: Output) -> None:
    if output is Output.JSON:
        equal = all(each.allowed is not None for each in found)
        show_json({"equal": equal, "differences": [_json(each) for each in found]})
        return
    clusters = list(dict.fromkeys(name for each in found for name in each.values))
    show_table(_row(each, clusters) for each in found)
    count = sum(each.allowed is None for each in found)
    permitted = len(found) - count
    say(f"{count or 'no'} differences" + (f", and {permitted} that may be" if permitted else ""))


def _json(each: Difference) -> dict[str, Any]:
    return {
        "resourceType": each.resource.kind.value,
        "resource": each.resource.name,
        "field": each.unit.removeprefix("/") or None,
        "values": dict(each.values),
        "allowed": each.allowed,
    }


def _row(each: Difference, clusters: Sequence[str]) -> dict[str, Any]:
    values = dict(each.values)
    if each.unit == EXISTENCE:
        values = {name: "exists" if is_there else "is missing" for name, is_there in values.items()}
    return {
        "resource": f"{KINDS[each.resource.kind]} {each.resource.name}",
        "field": each.unit.removeprefix("/"),
        **{name: values.get(name) for name in clusters},
        "may differ": each.allowed or "",
    }
