"""Parts of all commands of ``magnetar migrate``: the arguments, and errors of the two clusters."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.failures import FailedError
from magnetar.cli.hints import failure_elsewhere
from magnetar.cli.session import namespace as read_namespace
from magnetar.cli.session import topic as read_topic
from magnetar.migration.sides import SOURCE, UnansweredError

Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant to move.")]
From = Annotated[
    str,
    typer.Option("--from", metavar="URL|PROFILE", help="Admin URL, or profile, of the cluster that the tenant leaves."),
]
To = Annotated[
    str, typer.Option("--to", metavar="URL|PROFILE", help="Admin URL, or profile, of the cluster to which it moves.")
]
Namespaces = Annotated[
    list[NamespaceName] | None,
    typer.Option(
        "--namespace", "-n", parser=read_namespace, metavar="NAMESPACE", help="Only this namespace; repeatable."
    ),
]
Topics = Annotated[
    list[TopicName] | None,
    typer.Option("--topic", parser=read_topic, metavar="TOPIC", help="Only this topic; repeatable."),
]


def options_of(cluster: str) -> str:
    """Return the options that select a cluster, given by its admin URL or by a profile."""
    return f" --admin-url {cluster}" if "://" in cluster else f" --cluster {cluster}"


def failure(error: UnansweredError) -> FailedError:
    """Return the failure of one of the clusters, with its URL and a hint."""
    cause, side = error.__cause__, error.side
    assert isinstance(cause, (AdminError, ClusterUnreachableError))
    option = "--from" if side.role == SOURCE else "--to"
    hint = f"{option} is a profile or an admin URL; magnetar profiles list shows the profiles"
    return failure_elsewhere(cause, side.client.url, f"the {side.role}", hint)
