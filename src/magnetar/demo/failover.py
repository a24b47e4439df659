"""The steps of the demo: a planned switch from ewr to jfk, and one from jfk to lga after jfk's broker is killed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from magnetar.demo.account import DemoError, Outage
from magnetar.demo.flights import AIRPORTS
from magnetar.demo.messages import now_ms
from magnetar.demo.plan import ACK_GROUPING_MS, CONSUMERS, KILL_AT, PLANNED_AT, publish_seconds
from magnetar.demo.processes.consumer import Consumer
from magnetar.demo.processes.publisher import Publisher
from magnetar.demo.processes.readers import Census, Probe
from magnetar.demo.report import Kill, Report, Switch
from magnetar.demo.samples import Percentiles, Samples

if TYPE_CHECKING:
    from magnetar.demo.coordinator import Coordinator
    from magnetar.demo.processes.workers import Worker

CENSUS_TIMEOUT_SECONDS = 240.0
"""Time limit for reading three whole logs."""

EWR, JFK, LGA = AIRPORTS
STAGES = AIRPORTS
"""The clusters in the order of consumption; a stage is an index into it."""


@dataclass(frozen=True, slots=True)
class _AtKill:
    """The state when the broker was killed."""

    acknowledged_since_progress: int
    unacknowledged: int
    last_progress_age_ms: float


class Failover:
    """One run of the demo; call `run` once."""

    def __init__(self, coordinator: Coordinator, flights: int) -> None:
        """Use the first ``flights`` flights."""
        self._coordinator = coordinator
        self._account = coordinator.account
        self._clusters = coordinator.clusters
        self._flights = flights
        self._applied: dict[str, Percentiles] = {}
        access, workers, seconds = self._clusters.access, coordinator.workers, publish_seconds(flights)
        self._publish_seconds = seconds
        self._publishers = [
            workers.add(f"publisher in {name}", Publisher(name, access(name), flights, seconds)) for name in AIRPORTS
        ]
        self._consumers: list[list[Worker]] = [
            [
                workers.add(f"consumer {number} in {name}", Consumer(access(name), stage, holds=name != STAGES[-1]))
                for number in range(CONSUMERS)
            ]
            for stage, name in enumerate(STAGES)
        ]
        self._probe = workers.add(f"probe in {LGA}", Probe(access(LGA)))

    def run(self) -> Report:
        """Run all steps; raises DemoError if a step does not finish."""
        self._clusters.create_namespace()
        for name in AIRPORTS:
            self._coordinator.until(f"{name} has the namespace", partial(self._clusters.has_namespace, name))
        self._probe.go()
        self._open_consumers(0)
        for publisher in self._publishers:
            publisher.go()
        published_from = time.monotonic()
        self._wait_until(published_from + PLANNED_AT * self._publish_seconds)
        planned_pause_ms = self._switch_on_purpose()
        self._wait_until(published_from + KILL_AT * self._publish_seconds)
        at_kill, kill_pause_ms = self._kill()
        self._come_back()
        self._finish()
        self._count()
        return self._report([planned_pause_ms, kill_pause_ms], at_kill)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _switch_on_purpose(self) -> float:
        """Move the consumers after jfk has all acknowledgements; return the pause in milliseconds."""
        self._coordinator.enter(f"planned switch from {EWR} to {JFK}")
        self._note_applied(EWR, JFK, LGA)
        began = time.monotonic()
        self._close_consumers(0)
        self._coordinator.until(f"{JFK} has all of {EWR}'s progress", lambda: self._unconfirmed_ms(EWR, JFK) == 0.0)
        self._open_consumers(1)
        return (time.monotonic() - began) * 1000

    def _kill(self) -> tuple[_AtKill, float]:
        """Kill jfk's broker and move the consumers; return the state at the kill, and the pause in milliseconds."""
        self._note_applied(JFK, EWR, LGA)
        asked_at_ms = now_ms()
        age_ms = self._unconfirmed_ms(JFK, LGA)
        answer_ms = now_ms() - asked_at_ms
        if age_ms is None:
            message = f"{JFK} does not report the progress that {LGA} has confirmed"
            raise DemoError(message)
        self._clusters.kill_broker(JFK)
        began = time.monotonic()
        self._account.outage = Outage(JFK, now_ms())
        self._coordinator.enter(f"{JFK}'s broker is killed, consumers move to {LGA}")
        self._close_consumers(1, broker_lost=True)
        # The statistics cover the acknowledgements that the broker had received. Acknowledgements that the client still
        # batched, or that waited with the request for a busy broker, count as unconfirmed.
        confirmed_ms = asked_at_ms - age_ms - ACK_GROUPING_MS - answer_ms
        tally = self._account.tally
        at_kill = _AtKill(tally.acknowledged_since(1, confirmed_ms), tally.unacknowledged(1), age_ms)
        self._open_consumers(2)
        return at_kill, (time.monotonic() - began) * 1000

    def _come_back(self) -> None:
        """Wait for the restart of the killed broker by ``magnetar up``."""
        outage = self._account.outage
        assert outage is not None, "only what was killed comes back"
        self._coordinator.until(f"{JFK} serves again", lambda: self._clusters.is_healthy(JFK))
        outage.ended_ms = now_ms()
        self._coordinator.enter(f"{JFK} is back, consuming in {LGA}")

    def _finish(self) -> None:
        """Wait until everything is consumed and acknowledged, and every cluster has every message."""
        account, coordinator = self._account, self._coordinator
        coordinator.while_running(self._publishers)
        coordinator.enter("delivering what is left")
        coordinator.while_moving(
            lambda: account.tally.delivered >= account.published.total() and not account.tally.outstanding
        )
        self._note_applied(LGA, EWR)  # without jfk, where acknowledgements waited for the broker's return
        self._close_consumers(2)
        coordinator.enter("converging")
        coordinator.while_moving(self._converged)
        self._probe.stop()
        coordinator.until_ended([self._probe])

    def _count(self) -> None:
        """Count the messages in every cluster's whole log."""
        self._coordinator.enter("counting what each cluster holds")
        for name in AIRPORTS:
            self._coordinator.workers.add(f"census of {name}", Census(name, self._clusters.access(name))).go()
        counted = self._account.holdings
        self._coordinator.until("all logs are read", lambda: len(counted) == len(AIRPORTS), CENSUS_TIMEOUT_SECONDS)

    # -- parts of steps -------------------------------------------------------------------------------------------

    def _wait_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self._coordinator.turn()

    def _open_consumers(self, stage: int) -> None:
        """Start the stage's consumers, and wait until all are connected."""
        name = STAGES[stage]
        for worker in self._consumers[stage]:
            worker.go()

        def connected() -> bool:
            status = self._coordinator.watch.look(name)
            return status is not None and status.consumers >= CONSUMERS

        self._coordinator.until(f"the consumers are connected to {name}", connected)
        self._coordinator.consumed_in = name
        self._coordinator.enter(f"consuming in {name}")

    def _close_consumers(self, stage: int, *, broker_lost: bool = False) -> None:
        self._coordinator.consumed_in = None
        for worker in self._consumers[stage]:
            worker.stop(broker_lost=broker_lost)
        self._coordinator.until_ended(self._consumers[stage])

    def _unconfirmed_ms(self, source: str, target: str) -> float | None:
        """Return the age of the oldest acknowledgement of ``source`` unconfirmed by ``target``; None if unknown."""
        status = self._coordinator.watch.look(source)
        age = status.progress_age_seconds.get(target) if status is not None else None
        return age * 1000 if age is not None else None

    def _note_applied(self, source: str, *targets: str) -> None:
        """Record the delays from acknowledgements of ``source`` to their application in each of ``targets``."""
        for target in targets:
            status = self._coordinator.watch.look(target)
            if status is not None and source in status.progress_applied:
                self._applied[f"{source}>{target}"] = status.progress_applied[source]

    def _converged(self) -> bool:
        """Return whether every cluster has replicated and acknowledged everything."""
        statuses = [self._coordinator.watch.look(name) for name in AIRPORTS]
        return all(each is not None and each.backlog == each.replication_backlog == 0 for each in statuses)

    def _report(self, pauses_ms: list[float], at_kill: _AtKill) -> Report:
        account, outage = self._account, self._account.outage
        assert outage is not None, "the report is made after the kill"
        assert outage.ended_ms is not None, "the report is made after the return"
        planned, killed = account.tally.repeats(1), account.tally.repeats(2)
        published = account.published.total()
        ages = Samples()
        ages.add(self._coordinator.watch.ages_ms)
        return Report(
            flights=self._flights,
            published=published,
            delivered=account.tally.delivered,
            lost=max(0, published - account.tally.delivered),
            switches=(
                Switch(
                    kind="planned",
                    source=EWR,
                    target=JFK,
                    duplicates=planned.duplicates,
                    bound=0,
                    redelivered=planned.redelivered,
                    pause_ms=round(pauses_ms[0], 1),
                ),
                Kill(
                    kind="kill",
                    source=JFK,
                    target=LGA,
                    duplicates=killed.duplicates,
                    bound=at_kill.acknowledged_since_progress + at_kill.unacknowledged,
                    redelivered=killed.redelivered,
                    pause_ms=round(pauses_ms[1], 1),
                    acknowledged_since_progress=at_kill.acknowledged_since_progress,
                    unacknowledged=at_kill.unacknowledged,
                    last_progress_age_ms=round(at_kill.last_progress_age_ms, 1),
                    down_seconds=round((outage.ended_ms - outage.began_ms) / 1000, 1),
                    late=account.late,
                ),
            ),
            replication_ms=account.latency(),
            progress_ms=Percentiles.worst(list(self._applied.values())),
            progress_links=self._applied,
            progress_age_ms=ages.percentiles(),
            handovers=self._coordinator.watch.handovers,
            holdings=tuple(account.holdings[name] for name in AIRPORTS),
            seconds=round(self._coordinator.seconds, 1),
        )
