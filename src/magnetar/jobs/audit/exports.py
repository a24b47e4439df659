"""The acknowledgement state of replicated subscriptions, exported by the admin API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.audit.comparing.acknowledgements import Acknowledged
from magnetar.jobs.audit.survey import unless_missing
from magnetar.jobs.audit.tables import Kind
from magnetar.wire.entries.ack_set import words_to_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from magnetar.admin.client import AdminClient
    from magnetar.jobs.audit.survey import Subscribed, Survey

    States = dict[str, dict[str, Acknowledged]]

STATES: Final = pa.schema(
    [
        ("subscription", pa.string()),
        ("cluster", pa.string()),
        ("ledger", pa.int64()),
        ("first", pa.int64()),  # null: ``last`` is the mark-delete position
        ("last", pa.int64()),
        ("remaining", pa.binary()),  # of a partly acknowledged batch: the bits of unacknowledged messages; else null
    ]
)
"""The acknowledgement states of a topic."""


class Comparable(NamedTuple):
    """The replicated subscriptions of one topic."""

    clusters: Mapping[str, frozenset[str]]
    """By subscription, the clusters in which it is compared; at least two."""
    missing: Mapping[str, frozenset[str]]
    """By subscription, the clusters in which it does not exist."""
    excluded: Mapping[str, str]
    """By subscription that is not compared, the reason."""


def comparable(by_cluster: Mapping[str, Mapping[str, Subscribed]]) -> Comparable:
    """Decide which subscriptions of a topic are compared, from those in each cluster that has the topic."""
    clusters, missing, excluded = {}, {}, {}
    for name in sorted({name for found in by_cluster.values() for name in found}):
        found = {cluster: each[name] for cluster, each in by_cluster.items() if name in each}
        replicated = {cluster for cluster, each in found.items() if each.is_replicated}
        inexact = {other for each in found.values() for other in each.inexact}
        exact = frozenset(replicated - inexact)
        lacking = frozenset(by_cluster.keys() - found.keys() - inexact)
        if not replicated:
            excluded[name] = "it is not replicated"
        elif len(exact) + len(lacking) < 2:  # noqa: PLR2004 - a comparison needs two
            excluded[name] = "it is replicated with snapshots" if inexact else "it is replicated in one cluster only"
        else:
            if len(exact) > 1:
                clusters[name] = exact
            if lacking:
                missing[name] = lacking
    return Comparable(clusters, missing, excluded)


def missing_rows(topic: str, found: Comparable, clusters: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the findings about subscriptions that a cluster lacks."""
    for subscription, lacking in found.missing.items():
        others = ",".join(sorted(set(clusters) - lacking))
        for cluster in sorted(lacking):
            same = {"kind": Kind.NO_SUBSCRIPTION.value, "topic": topic, "subscription": subscription}
            yield {**same, "cluster": cluster, "origin": cluster, "other": others}


def export(survey: Survey, topic: str, found: Comparable) -> pa.Table:
    """Return the acknowledgement states of a topic as STATES. A subscription that was deleted meanwhile is left out."""
    tables = [STATES.empty_table()]
    for subscription, clusters in found.clusters.items():
        for cluster in sorted(clusters):
            read = partial(_state, survey.client(cluster), TopicName.parse(topic), subscription)
            state = unless_missing(read)
            if state is not None:
                names = {
                    name: pa.repeat(value, state.num_rows)
                    for name, value in (("subscription", subscription), ("cluster", cluster))
                }
                tables.append(pa.table({**names, **{name: state[name] for name in state.column_names}}, STATES))
    return pa.concat_tables(tables)


def _state(client: AdminClient, topic: TopicName, subscription: str) -> pa.Table:
    """Return the state of a subscription in one cluster, all pages of it."""
    ledgers: list[int] = []
    firsts: list[int | None] = []
    lasts: list[int] = []
    bits: list[bytes | None] = []
    after = EARLIEST
    mark = EARLIEST
    while True:
        page = client.subscriptions.acknowledgements(topic, subscription, after)
        mark = max(mark, Position.parse(page["markDeletePosition"]))
        for ledger, first, last in page["ranges"]:
            ledgers.append(ledger)
            firsts.append(first)
            lasts.append(last)
            bits.append(None)
        for text, words in page["batches"].items():
            position, remaining = Position.parse(text), words_to_int(words)
            ledgers.append(position.ledger_id)
            firsts.append(position.entry_id)
            lasts.append(position.entry_id)
            bits.append(remaining.to_bytes(8 * len(words), "little"))
        if page.get("next") is None:
            break
        after = Position.parse(page["next"])
    columns = {
        "ledger": pa.array([mark.ledger_id, *ledgers], pa.int64()),
        "first": pa.array([None, *firsts], pa.int64()),
        "last": pa.array([mark.entry_id, *lasts], pa.int64()),
        "remaining": pa.array([None, *bits], pa.binary()),
    }
    return pa.table(columns)


def states_in(table: pa.Table) -> States:
    """Return the states in STATES by subscription and cluster."""
    subscriptions, clusters = table["subscription"].to_pylist(), table["cluster"].to_pylist()
    places: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(subscriptions, clusters, strict=True)):
        places.setdefault(key, []).append(row)
    found: States = {}
    for (subscription, cluster), rows in places.items():
        found.setdefault(subscription, {})[cluster] = _acknowledged(table.take(pa.array(rows)))
    return found


def _acknowledged(rows: pa.Table) -> Acknowledged:
    is_mark, is_batch = rows["first"].is_null().to_numpy(), rows["remaining"].is_valid().to_numpy()
    ledgers, lasts = rows["ledger"].to_numpy(), rows["last"].to_numpy()
    (mark,) = np.flatnonzero(is_mark)
    ranges = np.flatnonzero(~is_mark & ~is_batch)
    remaining = {
        Position(int(ledgers[row]), int(lasts[row])): int.from_bytes(rows["remaining"][int(row)].as_py(), "little")
        for row in np.flatnonzero(is_batch)
    }
    return Acknowledged(
        Position(int(ledgers[mark]), int(lasts[mark])),
        ledgers[ranges],
        rows["first"].fill_null(0).to_numpy()[ranges],
        lasts[ranges],
        remaining,
    )
