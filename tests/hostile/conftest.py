"""One broker for all behaviours, one well-behaved client, and the table at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.watched_broker import WatchedBroker
from tests.hostile.stage import Stage
from tests.hostile.table import Row, render
from tests.hostile.victim import DESCRIPTORS_MAX, EVENT_TOPIC, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ROWS = pytest.StashKey[list[Row]]()


class Theatre:
    """The stage of the behaviours, set up again only when a behaviour has broken it."""

    def __init__(self, directory: Path) -> None:
        """Nothing runs yet."""
        self._directory = directory
        self._stages: list[Stage] = []

    def stage(self) -> Stage:
        """Return a stage whose broker runs and whose storage takes writes."""
        if not self._stages or not self._stages[-1].is_usable():
            self.close()
            directory = self._directory / f"stage-{len(self._stages)}"
            directory.mkdir()
            settings = SETTINGS | {"metadataSyncEventTopic": EVENT_TOPIC}
            broker = WatchedBroker(directory / "broker", settings=settings, descriptors_max=DESCRIPTORS_MAX)
            self._stages.append(Stage(broker, directory))
        return self._stages[-1]

    def close(self) -> None:
        """Stop the stage."""
        if self._stages:
            self._stages[-1].__exit__()


@pytest.fixture(scope="package")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """One stage for all behaviours: what one leaves behind shows in the next."""
    running = Theatre(tmp_path_factory.mktemp("hostile"))
    yield running
    running.close()


@pytest.fixture
def stage(theatre: Theatre) -> Stage:
    """The broker to attack and its well-behaved client."""
    return theatre.stage()


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> list[Row]:
    """The rows of the table so far."""
    return request.config.stash.setdefault(_ROWS, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    rows = config.stash.get(_ROWS, [])
    if rows:
        terminalreporter.section("what a well-behaved client experienced")
        terminalreporter.write(render(rows))
