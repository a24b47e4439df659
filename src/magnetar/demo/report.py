"""The report of a run: as JSON, as a table, and its failures. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.demo.processes.workers import Holding
    from magnetar.demo.samples import Percentiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The move of the consumers from one cluster to another."""

    kind: str
    """``planned`` or ``kill``."""
    source: str
    target: str
    duplicates: int
    """Number of messages delivered again although they had been acknowledged."""
    bound: int
    """Maximum number of duplicates."""
    redelivered: int
    """Number of messages delivered again that had not been acknowledged."""
    pause_ms: float
    """From the last consumption in the source to the first one in the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Switch):
    """A switch after the source's broker was killed; ``bound`` is the sum of the first two fields here."""

    acknowledged_since_progress: int
    """Number of acknowledgements after those that the target is known to have."""
    unacknowledged: int
    """Number of messages delivered and not acknowledged."""
    last_progress_age_ms: float
    """Age of the oldest unconfirmed acknowledgement in the last statistics before the kill."""
    down_seconds: float
    """Seconds until the broker was available again."""
    late: int
    """Number of messages that only the killed cluster had; the others received them after its return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a run; ``seconds`` is its duration after the start of the clusters."""

    flights: int
    published: int
    delivered: int
    lost: int
    switches: tuple[Switch, ...]
    replication_ms: Percentiles
    progress_ms: Percentiles
    """From an acknowledgement in one cluster to its application in another, measured by the brokers; the worst stage.
    """
    progress_links: dict[str, Percentiles]
    """The same for each stage, by ``source>target``."""
    progress_age_ms: Percentiles
    """Age of the oldest acknowledgement that another cluster had not confirmed, sampled periodically."""
    handovers: int
    holdings: tuple[Holding, ...]
    seconds: float

    @property
    def failures(self) -> list[str]:
        """Return the broken promises; empty for a good run."""
        return list(self._failures())

    def to_json(self) -> dict[str, Any]:
        """Return the report in the form of ``report.json``."""
        return asdict(self) | {
            "clusters": {each.cluster: each.messages for each in self.holdings},
            "failures": self.failures,
        }

    def rows(self) -> list[dict[str, str]]:
        """Return the report as rows, each figure with its bound."""
        return [{"what": what, "result": result, "bound": bound} for what, result, bound in self._rows()]

    def _failures(self) -> Iterator[str]:
        if self.published < self.flights:
            yield f"{self.flights - self.published} flights could not be published"
        if self.lost:
            yield f"{self.lost} messages lost"
        for switch in self.switches:
            if switch.duplicates > switch.bound:
                yield f"{switch.duplicates} duplicates at the {switch.kind} switch, at most {switch.bound} allowed"
        for holding in self.holdings:
            if holding.flights != self.published:
                yield f"{holding.cluster} holds {holding.flights} of {self.published} flights"
            if holding.repeated:
                yield f"{holding.cluster} holds {holding.repeated} messages more than once"

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        yield "published", f"{self.published:,}", f"{self.flights:,}"
        yield "delivered", f"{self.delivered:,}", f"{self.published:,}"
        yield "lost", f"{self.lost:,}", "0"
        for switch in self.switches:
            name = f"{switch.kind} switch {switch.source} to {switch.target}"
            yield f"{name}: duplicates", f"{switch.duplicates:,}", f"at most {switch.bound:,}"
            yield f"{name}: redelivered, unacknowledged", f"{switch.redelivered:,}", ""
            yield f"{name}: pause", f"{switch.pause_ms:,.0f} ms", ""
            if isinstance(switch, Kill):
                yield "  acknowledged since the last progress", f"{switch.acknowledged_since_progress:,}", ""
                yield "  in flight and unacknowledged", f"{switch.unacknowledged:,}", ""
                yield f"  {switch.source} was down", f"{switch.down_seconds:.1f} s", ""
                yield "  late, not lost", f"{switch.late:,}", ""
        yield "publish to receive elsewhere, p50 / p99", _pair(self.replication_ms), ""
        yield "acknowledge to apply elsewhere, p50 / p99", _pair(self.progress_ms), ""
        yield "progress age, p50 / p99", _pair(self.progress_age_ms), ""
        yield "hand-overs of the pipeline", f"{self.handovers:,}", ""
        for holding in self.holdings:
            resent = f" ({holding.resent:,} sent twice by their producer)" if holding.resent else ""
            yield f"{holding.cluster} holds", f"{holding.messages:,}{resent}", f"{self.published:,} flights"
            yield f"{holding.cluster} holds twice", f"{holding.repeated:,}", "0"
        yield "took", f"{self.seconds:.0f} s", ""


def _pair(percentiles: Percentiles) -> str:
    return f"{percentiles.p50:,.1f} / {percentiles.p99:,.1f} ms"
