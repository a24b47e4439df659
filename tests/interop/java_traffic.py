"""Apache Pulsar's Java client, which publishes and consumes while its topic moves between clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.interop.schema_clients import SOURCES, ProgramClient
from tests.kit.pulsar_jars import java, pulsar_jars
from tests.kit.traffic import ROUND_S
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class JavaTraffic(ProgramClient):
    """See ``Traffic``: the same subscriptions and messages."""

    def __init__(self, service_url: str, topics: Sequence[str], directory: Path, round_s: float = ROUND_S) -> None:
        """Start the program from its source, with the jars of Apache Pulsar."""
        source = str(SOURCES / "Traffic.java")
        arguments = [source, service_url, f"{round_s * 1000:.0f}", *topics]
        super().__init__([java(), "-cp", f"{pulsar_jars()}/*", *arguments], directory / "traffic.log")
        self._do("state")  # it is connected

    def go_on(self, where: str) -> None:
        """Wait for more traffic."""
        before = self._do("state")["published"]

        def goes_on() -> bool:
            found = self._do("state")
            return bool(found["failures"]) or found["published"] > before + 100

        wait_until(goes_on, 60, what=f"traffic of the Java client in {where}")

    def stop(self) -> dict[str, Any]:
        """Stop publishing, end the program, and return the results when everything is delivered."""
        with self:
            return self._do("stop")

    def _do(self, what: str) -> dict[str, Any]:
        return self.ask(what, "", "")
