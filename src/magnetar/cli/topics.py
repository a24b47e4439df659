"""``magnetar topics``: topics and partitioned topics; ``topic_subscriptions`` has the verbs for subscriptions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.cli import properties
from magnetar.cli.consent import Force, Yes
from magnetar.cli.global_options import noun
from magnetar.cli.output import UNKNOWN, Output, show_fields, show_table
from magnetar.cli.permissions import add_permission_verbs
from magnetar.cli.session import Namespace, Session, Topic, change, command
from magnetar.cli.standing import standings
from magnetar.cli.states import topic_effects, topic_state
from magnetar.cli.units import position

app = noun("Topics, partitioned topics and their subscriptions.")

ForceDeletion = Annotated[bool, typer.Option("--force", "-f", help="Do not ask, and disconnect its clients.")]
Partitions = Annotated[int, typer.Option("--partitions", "-p", min=1, help="Number of partitions.")]

_SUMMARY = (
    "msgRateIn",
    "msgThroughputIn",
    "msgRateOut",
    "msgThroughputOut",
    "msgInCounter",
    "bytesInCounter",
    "msgOutCounter",
    "bytesOutCounter",
    "storageSize",
    "backlogSize",
    "deduplicationStatus",
    "ownerBroker",
)


@command(app, "list")
def list_topics(session: Session, namespace: Namespace) -> None:
    """List a namespace's topics, partitions included."""
    session.names(session.client.topics.of_namespace(namespace))


@command(app, "list-partitioned-topics")
def list_partitioned_topics(session: Session, namespace: Namespace) -> None:
    """List a namespace's partitioned topics."""
    session.names(session.client.topics.partitioned_of_namespace(namespace))


@command(app, "create")
def create(session: Session, topic: Topic) -> None:
    """Create a topic without partitions."""
    session.client.topics.create(topic)
    session.created("topic", topic, {"partitions": 0})


@command(app, "delete")
def delete(session: Session, topic: Topic, force: ForceDeletion = False, yes: Yes = False) -> None:
    """Delete a topic."""
    before = _consented_deletion(session, topic, partitioned=False, consent=force or yes)
    session.client.topics.delete(topic, force=force)
    session.deleted("topic", topic, before)


@change(app, "create-partitioned-topic")
def create_partitioned_topic(session: Session, topic: Topic, partitions: Partitions) -> None:
    """Create a partitioned topic."""
    session.client.topics.create_partitioned(topic, partitions)
    session.created("topic", topic, {"partitions": session.client.topics.partitions(topic)})


@change(app, "update-partitioned-topic")
def update_partitioned_topic(session: Session, topic: Topic, partitions: Partitions) -> None:
    """Add partitions."""
    topics = session.client.topics
    before = topics.partitions(topic)
    topics.update_partitioned(topic, partitions)
    session.changed(topic, "partitions", before, topics.partitions(topic))


@change(app, "delete-partitioned-topic")
def delete_partitioned_topic(session: Session, topic: Topic, force: ForceDeletion = False, yes: Yes = False) -> None:
    """Delete a partitioned topic and its partitions."""
    before = _consented_deletion(session, topic, partitioned=True, consent=force or yes)
    session.client.topics.delete_partitioned(topic, force=force)
    session.deleted("topic", topic, before)


@command(app, "get-partitioned-topic-metadata")
def get_partitioned_topic_metadata(session: Session, topic: Topic) -> None:
    """Show the number of partitions of a topic; 0 if it is not partitioned."""
    session.fields({"partitions": session.client.topics.partitions(topic)})


@command(app, "unload")
def unload(session: Session, topic: Topic) -> None:
    """Close a topic and disconnect its clients, which reconnect."""
    session.client.topics.unload(topic)
    session.done(f"unloaded {topic}", topic, "topic", "loaded", "unloaded")


@command(app, "skip-entries")
def skip_entries(
    session: Session,
    topic: Topic,
    link: Annotated[str, typer.Option("--link", "-l", help="Target cluster of the stopped link.")],
    through: Annotated[
        Position,
        typer.Option("--through", parser=position, metavar="POSITION", help="The last entry to skip, ledger:entry."),
    ],
    force: Force = False,
) -> None:
    """Let a link skip the damaged entries at which it has stopped (damagedAt in the stats).

    The target cluster never gets these entries. Readable entries are never skipped.
    """
    if not force:
        effects = [f"{link} never gets the damaged entries up to {through}"]
        session.require_consent(f"let the link of {topic} to {link} skip entries", effects)
    session.client.topics.skip_entries(topic, link, through)
    text = f"the link of {topic} to {link} skips the damaged entries up to {through}"
    session.done(text, topic, f"skipped entries of the link to {link}", None, {"through": str(through)})


@command(app, "snapshot")
def snapshot(
    session: Session,
    topic: Topic,
    without: Annotated[
        list[str] | None, typer.Option("--without", "-w", help="Absent cluster to leave out; repeatable.")
    ] = None,
) -> None:
    """Start a snapshot for replicated subscriptions now (PIP-33)."""
    session.client.topics.begin_snapshot(topic, without or [])
    left_out = f", without {', '.join(without)}" if without else ""
    session.done(f"started a snapshot of {topic}{left_out}", topic, "snapshot", None, "started")


@command(app, "lookup")
def lookup(session: Session, topic: Topic) -> None:
    """Show the broker that serves a topic."""
    session.fields(session.client.topics.lookup(topic))


@command(app, "last-message-id")
def last_message_id(session: Session, topic: Topic) -> None:
    """Show the id of the newest message."""
    session.fields(session.client.topics.last_message_id(topic))


@command(app, "stats")
def stats(
    session: Session,
    topic: Topic,
    get_precise_backlog: Annotated[
        bool, typer.Option("--get-precise-backlog", help="Count the backlog exactly, which takes longer.")
    ] = False,
) -> None:
    """Show a topic's rates, sizes, subscriptions and replication."""
    _show_stats(session, session.client.topics.stats(topic, precise_backlog=get_precise_backlog))


@command(app, "partitioned-stats")
def partitioned_stats(
    session: Session,
    topic: Topic,
    per_partition: Annotated[bool, typer.Option("--per-partition", help="Include each partition (JSON only).")] = False,
) -> None:
    """Show the statistics of a partitioned topic, summed over its partitions."""
    _show_stats(session, session.client.topics.partitioned_stats(topic, per_partition=per_partition))


@command(app, "stats-internal")
def stats_internal(session: Session, topic: Topic) -> None:
    """Show a topic's ledgers and cursors."""
    found = session.client.topics.internal_stats(topic)
    if session.output is Output.JSON:
        session.fields(found)
        return
    show_fields({name: value for name, value in found.items() if name not in ("ledgers", "cursors")})
    show_table(found["ledgers"])
    shown = ("markDeletePosition", "readPosition", "individuallyDeletedMessages", "cursorLedger", "state")
    show_table(
        {"cursor": name} | {field: each.get(field) for field in shown} for name, each in found["cursors"].items()
    )


properties.add_to_topics(app)
add_permission_verbs(app, Topic)


def _consented_deletion(
    session: Session, topic: TopicName, *, partitioned: bool, consent: bool
) -> dict[str, Any] | None:
    """Ask for consent to the deletion of a topic, unless it was given, and return the state of the topic."""
    state = topic_state(session.client, topic, partitioned=partitioned)
    if state is not None and not consent:
        session.require_consent(f"delete {topic}", topic_effects(state), option="--yes")
    return state


def _show_stats(session: Session, found: dict[str, Any]) -> None:
    if session.output is Output.JSON:
        session.fields(found)
        return
    show_fields({name: found.get(name) for name in _SUMMARY} | {"producers": len(found["publishers"])})
    show_table(standings(found))
    show_table(
        {
            "replication to": remote,
            "connected": each["connected"],
            "backlog": each.get("replicationBacklog", f"at least {each.get('replicationBacklogAtLeast', UNKNOWN)}"),
            "delay (s)": each.get("replicationDelayInSeconds", UNKNOWN),
            "msg/s out": each["msgRateOut"],
            "msg/s in": each["msgRateIn"],
        }
        for remote, each in found["replication"].items()
    )
