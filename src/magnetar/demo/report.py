"""What the demo found: as JSON, as a table, and whether it is good. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.demo.processes.workers import Holding
    from magnetar.demo.samples import Percentiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The consumers' move from one cluster to another."""

    kind: str
    """``planned`` or ``kill``."""
    source: str
    target: str
    duplicates: int
    """Messages that came again although they had been acknowledged."""
    bound: int
    """As many duplicates as there may be."""
    redelivered: int
    """Messages that came again because they had not been acknowledged."""
    pause_ms: float
    """From the end of consumption in the source to its start in the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Switch):
    """A switch because the source's broker died; ``bound`` is the sum of the first two fields here."""

    acknowledged_since_progress: int
    """Acknowledged after what the target is known to have heard of: the last sync interval."""
    unacknowledged: int
    """Delivered, and still in the consumers' hands."""
    last_progress_age_ms: float
    """How old the oldest unconfirmed acknowledgement was when the broker was last asked, just before the kill."""
    down_seconds: float
    """Until the broker served again."""
    late: int
    """Messages that only the killed cluster had; the others received them when it came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole run; ``seconds`` is its length, starting the clusters set aside."""

    flights: int
    published: int
    delivered: int
    lost: int
    switches: tuple[Switch, ...]
    replication_ms: Percentiles
    progress_ms: Percentiles
    """Acknowledgement in one cluster to application in another, the worst of the stages, as the brokers measured it."""
    progress_links: dict[str, Percentiles]
    """The same for each stage apart, by ``source>target``."""
    progress_age_ms: Percentiles
    """Age of the oldest acknowledgement that another cluster had not confirmed, sampled all along."""
    handovers: int
    holdings: tuple[Holding, ...]
    seconds: float

    @property
    def failures(self) -> list[str]:
        """Broken promises; empty for a good run."""
        return list(self._failures())

    def to_json(self) -> dict[str, Any]:
        """The report as it is written to ``report.json``."""
        return asdict(self) | {
            "clusters": {each.cluster: each.messages for each in self.holdings},
            "failures": self.failures,
        }

    def rows(self) -> list[dict[str, str]]:
        """The report as it is shown, each figure with its bound."""
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
