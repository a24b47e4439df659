"""The logs of a replicated topic in several clusters, byte by byte, as text that a person can read and compare.

::

    # The summary of the move.

    log of one
    entry 5:0
      metadata: producer_name: "pulsar.marker" sequence_id: 0 publish_time: 1700000000123 marker_type: 10
      payload: ReplicatedSubscriptionsSnapshotRequest snapshot_id: "…" source_cluster: "one"
      bytes: 0e01…

Only the bytes count; metadata and payload are their decoded form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf import text_format

from magnetar.base.position import Position
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import parse_metadata, payload_of
from magnetar.wire.proto import pulsar_markers_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from google.protobuf.message import Message

BYTES_PER_LINE = 50

MESSAGES: Mapping[int, type[Message]] = {
    markers.SNAPSHOT_REQUEST: pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotRequest,
    markers.SNAPSHOT_RESPONSE: pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse,
    markers.SNAPSHOT: pulsar_markers_pb2.ReplicatedSubscriptionsSnapshot,
    markers.UPDATE: pulsar_markers_pb2.ReplicatedSubscriptionsUpdate,
}
"""The message type in the payload of each marker."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One entry of a log."""

    position: Position
    entry: bytes


Logs = dict[str, tuple[Logged, ...]]
"""By cluster, in log order."""


@dataclass(frozen=True, slots=True)
class MarkedLogs:
    """The logs after a move of a subscription."""

    summary: str
    logs: Logs


def to_text(marked: MarkedLogs) -> str:
    """Return the text form."""
    lines = [f"# {marked.summary}"]
    for cluster, log in marked.logs.items():
        lines += ["", f"log of {cluster}"]
        for logged in log:
            lines += [f"entry {logged.position}", *_entry_lines(logged.entry)]
    return "".join(f"{line}\n" for line in lines)


def from_text(text: str) -> MarkedLogs:
    """Parse the result of ``to_text``; raises ValueError for anything else."""
    summary, _, *lines = text.removesuffix("\n").split("\n")
    logs: dict[str, list[tuple[Position, list[str]]]] = {}
    log: list[tuple[Position, list[str]]] = []
    for line in lines:
        kind, _, rest = line.strip().partition(" ")
        match kind:
            case "log":
                log = logs.setdefault(rest.removeprefix("of "), [])
            case "entry":
                log.append((Position.parse(rest), []))
            case "bytes:":
                log[-1][1].append(rest)
            case "metadata:" | "payload:" | "":
                pass
            case _:
                message = f"not a line of a log: {line}"
                raise ValueError(message)
    return MarkedLogs(
        summary.removeprefix("# "),
        {
            cluster: tuple(Logged(position, bytes.fromhex("".join(parts))) for position, parts in log)
            for cluster, log in logs.items()
        },
    )


def payload_message(entry: bytes) -> Message | None:
    """Return the payload of a marker of replicated subscriptions; None for other entries."""
    kind = MESSAGES.get(parse_metadata(entry).marker_type)
    return kind.FromString(bytes(payload_of(entry))) if kind else None


def _entry_lines(entry: bytes) -> Iterator[str]:
    yield f"  metadata: {_one_line(parse_metadata(entry))}"
    said = payload_message(entry)
    text = f"{type(said).__name__} {_one_line(said)}" if said else repr(bytes(payload_of(entry)))
    yield f"  payload: {text}"
    yield from (f"  bytes: {part}" for part in _parts(entry))


def _parts(entry: bytes) -> Sequence[str]:
    return [entry[start : start + BYTES_PER_LINE].hex() for start in range(0, len(entry), BYTES_PER_LINE)]


def _one_line(message: Message) -> str:
    return text_format.MessageToString(message, as_one_line=True, as_utf8=False)
