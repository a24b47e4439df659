"""Record the transcripts again from Apache Pulsar: ``python -m tests.golden.record [SCENARIO ...]``."""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.golden.operators import RestOperator
from tests.golden.proxy import Journal, RecordingProxy
from tests.golden.scenarios import SCENARIOS
from tests.golden.stage import Stage
from tests.golden.transcript import Transcript, to_text
from tests.kit.pulsar import PulsarStandalone
from tests.kit.pulsar_jars import PulsarUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.golden.stage import Scenario
    from tests.kit.server import Server

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def record(server: Server, scenario: Scenario) -> Transcript:
    """Run a scenario, and return its transcript.

    The scenario runs twice, because the first run of each operation is slow in a broker.
    """
    _play(server, scenario, f"public/{scenario.name}-rehearsal")
    return _play(server, scenario, f"public/{scenario.name}")


def _play(server: Server, scenario: Scenario, namespace: str) -> Transcript:
    """Run a scenario in a new namespace."""
    journal = Journal()
    started_at_ms = time.time_ns() // 1_000_000
    with RecordingProxy(server.service_url, journal) as proxy:
        stage = Stage(namespace, proxy, RestOperator(server.rest), journal)
        stage.operate("namespace", namespace)
        try:
            scenario.play(stage)
        finally:
            for client in stage.clients:
                client.close()
    settings = {key: str(value) for key, value in scenario.settings.items()}
    return Transcript(scenario.summary, settings, started_at_ms, tuple(journal.events))


def record_all(scenarios: Iterable[Scenario]) -> None:
    """Write the transcripts, with one Apache Pulsar for each set of settings."""

    def settings_of(scenario: Scenario) -> str:
        return str({**scenario.settings, **scenario.peer_settings})

    for _, alike in groupby(sorted(scenarios, key=settings_of), settings_of):
        together = list(alike)
        settings = {**together[0].settings, **together[0].peer_settings}
        with (
            tempfile.TemporaryDirectory(prefix="transcripts-") as directory,
            PulsarStandalone(Path(directory), settings=settings) as apache,
        ):
            for scenario in together:
                sys.stderr.write(f"recording {scenario.name}\n")
                path = TRANSCRIPTS / f"{scenario.name}.txt"
                path.write_text(to_text(record(apache, scenario)), encoding="utf-8")


def main(names: Sequence[str]) -> int:
    """Record the scenarios with these names, or all."""
    unknown = sorted(set(names) - set(SCENARIOS))
    if unknown:
        sys.stderr.write(f"error: no scenario {', '.join(unknown)}\nhint: there are {', '.join(SCENARIOS)}\n")
        return 2
    try:
        record_all(SCENARIOS[name] for name in names or SCENARIOS)
    except PulsarUnavailableError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
