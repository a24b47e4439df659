"""``magnetar schemas``: the schemas of topics."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import typer

from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName
from magnetar.cli.consent import Yes
from magnetar.cli.global_options import noun
from magnetar.cli.session import Session, Topic, command

app = noun("Schemas of topics.")

SchemaFile = Annotated[
    Path,
    typer.Option(
        "--filename", "-f", help='JSON file with a schema: {"type": "AVRO", "schema": "...", "properties": {}}.'
    ),
]


@command(app, "get")
def get(
    session: Session,
    topic: Topic,
    version: Annotated[int | None, typer.Option("--version", "-v", min=0, help="A version; default: latest.")] = None,
    all_versions: Annotated[bool, typer.Option("--all-version", "-a", help="All versions.")] = False,
) -> None:
    """Show the schema of a topic."""
    schemas = session.client.schemas
    if all_versions:
        session.rows(schemas.all(topic))
    else:
        session.fields(schemas.latest(topic) if version is None else schemas.version(topic, version))


@command(app, "upload")
def upload(session: Session, topic: Topic, file: SchemaFile) -> None:
    """Register a schema; it is refused if it clashes with those of the topic."""
    schemas = session.client.schemas
    before = _latest(session, topic)
    schemas.upload(topic, _schema(file))
    session.done(f"registered the schema of {topic}", topic, "schema", before, schemas.latest(topic))


@command(app, "delete")
def delete(
    session: Session,
    topic: Topic,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Do not ask, and forget the versions; the next one is 0.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete all versions of the schema of a topic; consumers cannot fetch them any more."""
    before = session.client.schemas.all(topic)
    if not (force or yes):
        effects = ["consumers cannot read stored messages without their schemas"]
        session.require_consent(f"delete {len(before)} versions of the schema of {topic}", effects, option="--yes")
    session.client.schemas.delete(topic, force=force)
    session.done(f"deleted the schema of {topic}", topic, "schema", before, None)


@command(app, "compatibility")
def compatibility(session: Session, topic: Topic, file: SchemaFile) -> None:
    """Show whether a schema could be registered, and the strategy that decides it."""
    session.fields(session.client.schemas.compatibility(topic, _schema(file)))


def _latest(session: Session, topic: TopicName) -> dict[str, Any] | None:
    try:
        return session.client.schemas.latest(topic)
    except AdminError as error:
        if error.status is not HTTPStatus.NOT_FOUND:
            raise
        return None


def _schema(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        message = f"cannot read {file}: {error}"
        raise typer.BadParameter(message) from None
    if not isinstance(document, dict):
        message = f"{file} holds no JSON object"
        raise typer.BadParameter(message)
    return document
