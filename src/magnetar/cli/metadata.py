"""``magnetar metadata``: the metadata synchronizer."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.consent import Force
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import noun
from magnetar.cli.metadata_diff import diff
from magnetar.cli.metadata_exchange import sync
from magnetar.cli.metadata_import import import_metadata
from magnetar.cli.session import Session, change, command

app = noun("The metadata that the clusters share (PIP-136).")
app.command("diff")(diff)
command(app, "import")(import_metadata)
command(app, "sync")(sync)


@command(app, "status")
def status(session: Session) -> None:
    """Show the state of the synchronizer: whether it is connected, and the age of the newest event of each cluster."""
    session.fields(session.client.metadata_sync.status())


@command(app, "local")
def local(session: Session) -> None:
    """List the fields and resources that differ here because of a change with --local, and their common values."""
    found = session.client.metadata_sync.local()
    session.rows({**each, "here": each.get("here"), "common": each.get("common")} for each in found)


@command(app, "remove-local")
def remove_local(
    session: Session,
    resource: Annotated[str, typer.Argument(help="Tenant, tenant/namespace, or full name of a topic.")],
    field: Annotated[
        str, typer.Option("--field", help="One field as in `metadata local`, or all keys of it; default: all fields.")
    ] = "",
) -> None:
    """Give what is local in a resource the values of the other clusters; publish a resource that they do not know."""
    session.client.metadata_sync.remove_local(resource, field)
    session.note(f"{field or 'all fields'} of {resource}: as in the other clusters")


@command(app, "unknown")
def unknown(session: Session) -> None:
    """List the fields that the version of the cluster does not know. It keeps them without an effect."""
    found = session.client.metadata_sync.unknown()
    session.rows({**each, "setBy": each.get("setBy"), "setAt": each.get("setAt")} for each in found)


@command(app, "refused")
def refused(session: Session) -> None:
    """List the newest events that could not be applied, with the reasons."""
    session.rows(session.client.metadata_sync.refused())


@command(app, "snapshot")
def snapshot(session: Session) -> None:
    """Publish all metadata of the cluster, which completes those of the other clusters."""
    session.client.metadata_sync.snapshot()
    session.note("published a snapshot")


@command(app, "stranded")
def stranded(session: Session) -> None:
    """List the topics whose namespace does not exist, because another cluster deleted it.

    Clients cannot use them, and their messages are kept. They return if the namespace is created again.
    """
    found = session.client.metadata_sync.stranded()
    session.rows({"topic": topic, **each} for topic, each in found.items())


@command(app, "delete-stranded")
def delete_stranded(
    session: Session,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="Topics, or namespaces for all their topics.")
    ],
    *,
    force: Force = False,
) -> None:
    """Delete topics whose namespace does not exist, with their messages."""
    found = session.client.metadata_sync.stranded()
    chosen = [each for each in found if each in topics or TopicName.parse(each).namespace_name in _namespaces(topics)]
    missing = [each for each in topics if each not in chosen and not any(f"/{each}/" in topic for topic in chosen)]
    if missing:
        hint = "list the stranded topics with: magnetar metadata stranded"
        raise FailedError(Failure(ExitCode.FAILED, f"{', '.join(missing)}: no such topic is stranded", hint))
    if not force:
        effects = [f"{each}: {found[each]['storageSize']:,} bytes, {_words(found[each])}" for each in chosen]
        session.require_consent(f"delete {len(chosen)} stranded topics", effects)
    for each in chosen:
        session.client.metadata_sync.delete_stranded(each)
    if session.is_json:
        session.names(chosen)
    else:
        session.note(f"deleted {len(chosen)} stranded topics")


Resource = Annotated[str, typer.Argument(metavar="RESOURCE", help="A tenant, tenant/namespace, or a topic.")]


@command(app, "history")
def history(session: Session, resource: Resource) -> None:
    """List the newest edits of a tenant, a namespace, or a topic and its policies, the oldest first.

    Each row is the change of one field: the edit, the cluster, the time, and whether the edit counts, was replaced by a
    later one, or lost against a concurrent one. Edits with --local have the scope local; other clusters do not know
    them.
    """
    found = session.client.metadata_sync.history(resource)
    session.rows(found if session.is_json else [row for edit in found for row in _rows(edit)])


@change(app, "undo")
def undo(
    session: Session,
    resource: Resource,
    edit: Annotated[
        str | None, typer.Argument(metavar="[EDIT]", help="As in the history; default: the newest.")
    ] = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Also replace the values of later edits of the same fields.")
    ] = False,
) -> None:
    """Restore the former values of what an edit changed, with a new edit for all clusters.

    It is refused if later edits changed the same fields. The deletion of a tenant or a namespace can be undone: its
    policies come back, its topics do not.
    """
    found = session.client.metadata_sync.undo(resource, edit, force=force)
    if session.is_json:
        session.fields(found)
    else:
        restored = ", ".join(f"{name}={json.dumps(value)}" for name, value in found["restored"].items())
        session.note(f"undid edit {found['edit']} of {found['resource']}: {restored}")


def _namespaces(texts: list[str]) -> set[NamespaceName]:
    return {NamespaceName.parse(text) for text in texts if text.count("/") == 1}


def _words(topic: dict[str, Any]) -> str:
    names = topic["subscriptions"]
    return f"with the subscriptions {', '.join(names)}" if names else "without subscriptions"


def _rows(edit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each changed field; one for an edit without any."""
    what = {"edit": edit["edit"], "time": edit["editedAt"], "cluster": edit["cluster"], "change": edit["change"]}
    what["scope"] = "local" if edit.get("isLocal") else ""
    nothing = {"field": "", "before": None, "after": None, "state": ""}
    fields = [
        {
            "field": each["field"],
            "before": each.get("before"),
            "after": each.get("after"),
            "state": f"lost to {each['lostTo']}" if "lostTo" in each else each["state"],
        }
        for each in edit["fields"]
    ]
    return [what | each for each in fields or [nothing]]
