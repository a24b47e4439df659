"""``magnetar schemas``: the schemas of topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from magnetar.cli.global_options import noun
from magnetar.cli.output import say
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
    session.client.schemas.upload(topic, _schema(file))
    say(f"registered the schema of {topic}")


@command(app, "delete")
def delete(
    session: Session,
    topic: Topic,
    force: Annotated[bool, typer.Option("--force", "-f", help="Forget the versions; the next one is 0.")] = False,
) -> None:
    """Delete all versions of the schema of a topic; consumers cannot fetch them any more."""
    session.client.schemas.delete(topic, force=force)
    say(f"deleted the schema of {topic}")


@command(app, "compatibility")
def compatibility(session: Session, topic: Topic, file: SchemaFile) -> None:
    """Show whether a schema could be registered, and the strategy that decides it."""
    session.fields(session.client.schemas.compatibility(topic, _schema(file)))


def _schema(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"cannot read {file}: {error}"
        raise typer.BadParameter(message) from None
    if not isinstance(document, dict):
        message = f"{file} holds no JSON object"
        raise typer.BadParameter(message)
    return document
