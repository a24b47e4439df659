"""A Magnetar broker as a process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

from magnetar.offline.check import check
from tests.kit.child import ChildProcess
from tests.kit.forked import ForkedBroker
from tests.kit.server import NO_SETTINGS, Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Broker(Server):
    """A ``magnetar broker`` on free ports."""

    process_name: ClassVar[str] = "broker"
    module: ClassVar[str] = "magnetar.cli.main"
    arguments: ClassVar[tuple[str, ...]] = ("broker",)

    def __init__(
        self,
        directory: Path,
        cluster: str = "standalone",
        settings: Mapping[str, object] = NO_SETTINGS,
        *,
        descriptors_max: int | None = None,
    ) -> None:
        """Choose ports; ``settings`` are additional configuration keys.

        ``descriptors_max`` is the limit of open files, by default that of this process.
        """
        super().__init__(directory, cluster, settings)
        self.descriptors_max = descriptors_max

    def __exit__(self, *exception: object) -> None:
        """Stop the broker, and check its data directory."""
        super().__exit__(*exception)
        self.require_intact()

    def require_intact(self) -> None:
        """Raise AssertionError if the data directory of the stopped broker is damaged."""
        report = check(self.directory / "data")
        assert report.intact, (report.problems, report.losses)

    def process_kind(self) -> type[ChildProcess]:
        """Return the class of a process that starts quickly, unless its environment or its limits are special."""
        return ChildProcess if self.environment or self.descriptors_max is not None else ForkedBroker

    def command(self) -> list[str]:
        """Write the configuration, and return the broker's command line."""
        configuration = self.write_configuration({"dataDirectory": self.directory / "data"})
        command = [sys.executable, "-m", self.module, *self.arguments, "--config", str(configuration)]
        if self.descriptors_max is None:
            return command
        return ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(self.descriptors_max), *command]
