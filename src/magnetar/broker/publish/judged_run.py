"""Runs of SENDs with duplicates: the entries to store, and the answers to the SENDs."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import structlog

from magnetar.base.errors import MagnetarError, ServerError
from magnetar.broker.publish.entry_sequence_ids import highest_in
from magnetar.broker.publish.overlap import cut_batch
from magnetar.broker.publish.producer import answer_error, answer_repeated, answer_stored
from magnetar.broker.publish.sequence_ids import Verdict, judge, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.position import Position
    from magnetar.broker.publish.interfaces import SendHead, StoringProducer

log = structlog.get_logger(__name__)


class JudgedRun(NamedTuple):
    """A run whose duplicates are determined."""

    verdicts: list[Verdict]
    """Judgement of each SEND."""
    entries: list[bytes]
    """Entries to store: the entry of each new SEND, or its new part."""
    messages: int
    """Number of new messages."""
    highest: int
    """Highest sequence id of the producer after ``entries`` are appended."""


def judge_run(
    pushed: int, heads: Sequence[SendHead], entries: Sequence[bytes], note: Callable[[MagnetarError], None]
) -> JudgedRun:
    """Distinguish new messages from duplicates; ``pushed`` is the highest sequence id appended before.

    ``note`` is called with the reason if a batch cannot be opened.
    """
    verdicts: list[Verdict] = []
    rest: list[bytes] = []
    messages = 0
    for head, entry in zip(heads, entries, strict=True):
        verdict, stored, highest = _judge(pushed, head, entry, note)
        verdicts.append(verdict)
        if verdict is Verdict.NEW:
            rest.append(stored)
            messages += head[2]
            pushed = highest
    return JudgedRun(verdicts, rest, messages, pushed)


def _judge(
    pushed: int, head: SendHead, entry: bytes, note: Callable[[MagnetarError], None]
) -> tuple[Verdict, bytes, int]:
    """Return the judgement of an entry, the part to store, and the producer's resulting sequence id."""
    lowest, highest = signed(head[0]), highest_in(entry, head, note)
    verdict = judge(pushed, lowest, highest)
    if verdict is Verdict.NEW:
        return verdict, entry, highest if head[2] else pushed
    if verdict is Verdict.DUPLICATE:
        return verdict, entry, pushed
    try:
        rest = cut_batch(entry, lowest, pushed)
    except MagnetarError as error:  # repeated messages are better than lost ones; the repetition is logged
        note(error)
        log.warning("batch_partly_repeated", sequence_id=lowest, last=pushed, error=str(error))
        rest = entry
    return (Verdict.NEW, rest, highest) if rest is not None else (Verdict.DUPLICATE, entry, pushed)


def answer_run(
    producer: StoringProducer, heads: Sequence[SendHead], verdicts: Sequence[Verdict], first: Position | None
) -> None:
    """Answer a run, whose appended entries are consecutive from ``first`` on."""
    for verdict, answered in groupby(zip(heads, verdicts, strict=True), key=itemgetter(1)):
        run = [head for head, _ in answered]
        if verdict is Verdict.DUPLICATE:
            answer_repeated(producer, run)
        elif verdict is Verdict.UNKNOWN:
            for head in run:
                message = "Cannot determine whether the message is a duplicate at this time"
                answer_error(producer, head, ServerError.PersistenceError, message)
        else:
            assert first is not None
            answer_stored(producer, run, first)
            first = first._replace(entry_id=first.entry_id + len(run))
