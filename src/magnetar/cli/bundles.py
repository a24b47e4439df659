"""The verbs of ``magnetar namespaces`` for bundles."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated

import typer

from magnetar.cli.session import Namespace, Session, change, command, names


class BundleType(StrEnum):
    """A bundle by its load instead of its range."""

    LARGEST = "LARGEST"
    HOT = "HOT"


class Algorithm(StrEnum):
    """Place of a split."""

    RANGE = "range_equally_divide"
    TOPIC_COUNT = "topic_count_equally_divide"
    POSITIONS = "specified_positions_divide"
    LOAD = "flow_or_qps_equally_divide"


Range = Annotated[str | None, typer.Option("--bundle", "-b", metavar="RANGE", help="0x00000000_0x40000000.")]


def add_bundle_verbs(app: typer.Typer) -> None:
    """Add the verbs to ``namespaces``."""
    command(app, "bundles")(_bundles)
    command(app, "unload")(_unload)
    change(app, "split-bundle")(_split_bundle)


def _bundles(session: Session, namespace: Namespace) -> None:
    """Show the ranges of hashes into which the topics of a namespace are divided."""
    found = session.client.namespaces.bundles(namespace)
    if session.is_json:
        session.fields(found)
    else:
        session.names(f"{first}_{end}" for first, end in pairwise(found["boundaries"]))


def _unload(session: Session, namespace: Namespace, bundle: Range = None) -> None:
    """Close the topics of a namespace, or of one bundle, and disconnect their clients, which reconnect."""
    session.client.namespaces.unload(namespace, bundle)
    what = "topics" if bundle is None else f"topics of bundle {bundle}"
    session.done(f"unloaded the {what} of {namespace}", namespace, what, "loaded", "unloaded")


def _split_bundle(
    session: Session,
    namespace: Namespace,
    *,
    bundle: Range = None,
    bundle_type: Annotated[
        BundleType | None, typer.Option("--bundle-type", "-bt", help="The bundle with the most topics.")
    ] = None,
    unload: Annotated[bool, typer.Option("--unload", "-u", help="Also unload the topics of the bundle.")] = False,
    algorithm: Annotated[
        Algorithm, typer.Option("--split-algorithm-name", "-san", help="Place of the split.")
    ] = Algorithm.RANGE,
    positions: Annotated[
        str, typer.Option("--split-boundaries", "-sb", help="Hashes, separated by commas, for specified positions.")
    ] = "",
) -> None:
    """Divide a bundle of a namespace. Bundles cannot be merged again."""
    if (bundle is None) == (bundle_type is None):
        message = "give either --bundle or --bundle-type"
        raise typer.BadParameter(message)
    namespaces = session.client.namespaces
    before = namespaces.bundles(namespace)
    namespaces.split_bundle(
        namespace,
        bundle or str(bundle_type),
        algorithm=algorithm.value,
        positions=list(map(_hash, names(positions))),
        unload=unload,
    )
    after = namespaces.bundles(namespace)
    text = f"bundles of {namespace}: {after['numBundles']} (was {before['numBundles']})"
    session.done(text, namespace, "bundles", before, after)


def _hash(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        message = f"{text!r} is not a number such as 0x20000000"
        raise typer.BadParameter(message) from None
