"""The verbs for properties of namespaces and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.session import Namespace, Session, Topic, change, command, names

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = Annotated[str, typer.Option("--key", "-k", help="Key of the property.")]
Value = Annotated[str, typer.Option("--value", "-v", help="Value of the property.")]
Pairs = Annotated[str, typer.Option("--properties", "-p", metavar="PAIRS", help="key=value, separated by commas.")]
RepeatedPairs = Annotated[list[str], typer.Option("--property", "-p", metavar="PAIR", help="key=value; repeatable.")]


def add_to_namespaces(app: typer.Typer) -> None:
    """Add the verbs to ``namespaces``."""
    command(app, "get-properties", owner=Namespace)(_get_all)
    command(app, "get-property")(_get)
    change(app, "set-property")(_set)
    change(app, "set-properties")(_set_several)
    change(app, "remove-property")(_remove)
    change(app, "clear-properties")(_clear)


def add_to_topics(app: typer.Typer) -> None:
    """Add the verbs to ``topics``."""
    command(app, "get-properties", owner=Topic)(_get_all)
    change(app, "update-properties")(_update_topic)
    change(app, "remove-properties")(_remove_from_topic)


def _get_all(session: Session, owner: Namespace) -> None:
    """Show the properties by key."""
    session.fields(session.client.properties.of(owner))


def _get(session: Session, namespace: Namespace, key: Key) -> None:
    """Show the value of a property."""
    session.value(session.client.properties.of(namespace).get(key))


def _set(session: Session, namespace: Namespace, key: Key, value: Value) -> None:
    """Set a property."""
    properties = session.client.properties
    before = properties.of(namespace).get(key)
    properties.update(namespace, {key: value})
    session.changed(namespace, _field(key), before, properties.of(namespace).get(key))


def _set_several(session: Session, namespace: Namespace, pairs: Pairs) -> None:
    """Set properties; the others stay."""
    _update(session, namespace, names(pairs))


def _remove(session: Session, namespace: Namespace, key: Key) -> None:
    """Remove a property."""
    properties = session.client.properties
    before = properties.of(namespace).get(key)
    properties.remove_from_namespace(namespace, key)
    session.changed(namespace, _field(key), before, properties.of(namespace).get(key))


def _clear(session: Session, namespace: Namespace) -> None:
    """Remove all properties."""
    properties = session.client.properties
    before = properties.of(namespace)
    properties.clear_namespace(namespace)
    session.changed(namespace, "properties", before, properties.of(namespace))


def _update_topic(session: Session, topic: Topic, pairs: RepeatedPairs) -> None:
    """Set properties; the others stay."""
    _update(session, topic, pairs)


def _remove_from_topic(session: Session, topic: Topic, key: Key) -> None:
    """Remove a property."""
    properties = session.client.properties
    before = properties.of(topic).get(key)
    properties.remove_from_topic(topic, key)
    session.changed(topic, _field(key), before, properties.of(topic).get(key))


def _update(session: Session, owner: Namespace | Topic, pairs: Iterable[str]) -> None:
    wanted = dict(map(_pair, pairs))
    properties = session.client.properties
    before = properties.of(owner)
    properties.update(owner, wanted)
    session.changed(owner, "properties", before, properties.of(owner))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        message = f"{text!r} is not key=value"
        raise typer.BadParameter(message)
    return key, value


def _field(key: str) -> str:
    return f"property {key}"
