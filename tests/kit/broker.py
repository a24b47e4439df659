"""Magnetar's broker as its users run it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from magnetar.broker.check import check
from tests.kit.server import NO_SETTINGS, Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Broker(Server):
    """A ``magnetar broker`` on free ports."""

    process_name: ClassVar[str] = "broker"

    def __init__(
        self, directory: Path, cluster: str = "standalone", settings: Mapping[str, object] = NO_SETTINGS
    ) -> None:
        """Choose ports; ``settings`` are further keys of the configuration."""
        super().__init__(directory, cluster, settings)

    def __exit__(self, *exception: object) -> None:
        """Stop the broker, and look at what it leaves behind."""
        super().__exit__(*exception)
        self.require_intact()

    def require_intact(self) -> None:
        """Raise AssertionError unless all that the broker, which must not run, left on disk is as it was written."""
        report = check(self.directory / "data")
        assert report.intact, (report.problems, report.losses)

    def command(self) -> list[str]:
        """Write the configuration and return the command that runs the broker with it."""
        configuration = self.write_configuration({"dataDirectory": self.directory / "data"})
        return [sys.executable, "-m", "magnetar.cli.main", "broker", "--config", str(configuration)]
