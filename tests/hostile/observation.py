"""One row of the table: what was seen before, during and after an attack."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from bench.watched_broker import WatchedBroker
from tests.hostile.table import LongestTurn, Row, keep, render
from tests.hostile.victim import (
    MEMORY_LIMIT_MB,
    MEMORY_SLACK_BYTES,
    load_average,
    log_bytes,
    peak,
    read_state,
    slow_commits_in,
    slow_metadata_commits_in,
    stalls_in,
    state_afterwards,
    wait_for_leave,
    watch_peak,
)
from tests.kit.processes import waited_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.hostile.bystander import Bystander
    from tests.kit.broker import Broker

LOG_BYTES_MAX = 4 << 20
"""Bytes that the broker may log about one attack."""


def observe(
    broker: Broker,
    bystander: Bystander,
    name: str,
    text: str,
    attack: Callable[[], int],
    baseline_gap_ms: float,
    *,
    clean_up: Callable[[], None] = lambda: None,
    expected_gap_ms: float = 0.0,
    repeats: bool = False,
    is_shared: bool = False,
) -> Row:
    """Attack; keep and return what was seen before, meanwhile, and after ``clean_up``.

    Long turns of the loop are counted until ``clean_up`` is done: to delete what an attack made must not stop others.
    ``attack`` returns the number of hostile acts. ``expected_gap_ms`` is the gap that a fault makes by itself;
    with ``repeats`` it may also make messages come again. With ``is_shared`` the topics of the attack stay, and so do
    the links that other clusters have opened for them: what the broker holds then is not compared.
    """
    bystander.catch_up()
    before, pid = read_state(broker), broker.pid
    watch_peak(broker)
    start, waited_before = time.monotonic(), waited_seconds(pid)
    acts = attack()
    if not is_shared:
        wait_for_leave(broker, before)
    end = time.monotonic()
    broker.process.require_running()
    highest, load, logged_bytes = peak(broker), load_average(), log_bytes(broker)
    account = bystander.settle()
    clean_up()
    metrics, is_same_process = broker.rest.metrics(), broker.pid == pid
    cleaned_at = time.monotonic()
    starved = (waited_seconds(pid) - waited_before) / (cleaned_at - start) if is_same_process else 0.0
    after = read_state(broker) if is_shared else state_afterwards(broker, before)
    experience = bystander.experience(start, end)
    row = Row(
        name=name,
        text=text,
        acts=acts,
        experience=asdict(experience),
        gap_ms=experience.gap,
        baseline_gap_ms=baseline_gap_ms,
        stalls=_increase(before.stalls, stalls_in(metrics)) if is_same_process else None,
        slow_commits=_increase(before.slow_commits, slow_commits_in(metrics)) if is_same_process else None,
        slow_metadata_commits=(
            _increase(before.slow_metadata_commits, slow_metadata_commits_in(metrics)) if is_same_process else None
        ),
        longest_turn=_longest_turn(broker, start, cleaned_at),
        resident_bytes=(before.resident_bytes, highest, after.resident_bytes),
        descriptors=(before.descriptors.total(), after.descriptors.total()),
        left_behind=[] if is_shared else after.left_behind(before),
        account=asdict(account),
        log_bytes=logged_bytes - before.log_bytes,
        load_average=load,
        starved=starved,
        expected_gap_ms=expected_gap_ms,
        repeats=repeats,
    )
    keep(row)
    print(render([row]))  # noqa: T201 - shown by -rP and with a failure
    return row


def _longest_turn(broker: Broker, start: float, end: float) -> LongestTurn | None:
    """Return the turn of the loop with the most processor time; None if there is none, or the loop is not watched."""
    turns = broker.turns() if isinstance(broker, WatchedBroker) else []
    meanwhile = [each for each in turns if start <= each.at_s <= end]
    if not meanwhile:
        return None
    busiest = max(meanwhile, key=lambda each: each.processor_s)
    awake_s = max(each.seconds - each.waited_s for each in meanwhile)
    return LongestTurn(busiest.seconds * 1000, busiest.processor_s * 1000, busiest.where, awake_s * 1000)


def _increase(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def require_nothing_left(row: Row) -> None:
    """Raise AssertionError if the attack left something behind or took more memory than it may."""
    before, highest, after = row.resident_bytes
    assert row.acts > 0, "the attacker did nothing"
    assert row.account["lost"] == 0
    assert row.account["without_receipt"] == 0
    assert row.left_behind == []
    assert highest < MEMORY_LIMIT_MB << 20
    assert after - before < MEMORY_SLACK_BYTES
    assert row.log_bytes < LOG_BYTES_MAX


def require_undisturbed(row: Row) -> None:
    """Raise AssertionError if a message came twice or in disorder, or a turn of the loop was too long.

    A gap of the client alone is no failure, nor is a turn that was long because the broker got no processor: a busy
    machine may make both.
    """
    assert row.account["repeated"] == 0
    assert row.account["is_in_order"]
    assert not row.is_stalled, "turns of the loop longer than 100 ms"
