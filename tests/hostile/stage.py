"""A broker and its well-behaved client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from tests.hostile.bystander import Bystander
from tests.hostile.victim import KEPT_TOPIC

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.broker import Broker

BASELINE_S = 5.0
"""Seconds for which the client is measured before any attack."""


class Stage:
    """A running broker, a well-behaved client, and what that experiences by itself."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        """Start both, and measure the client for a while without any attack."""
        self.broker = broker
        broker.__enter__()
        try:
            self.bystander = Bystander((broker.service_url, broker.service_url), KEPT_TOPIC, directory)
        except BaseException:
            broker.kill()
            raise
        self.baseline_gap_ms = measure_baseline(self.bystander)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop both and check what is on the disk."""
        self.bystander.__exit__()
        self.broker.__exit__()

    def is_usable(self) -> bool:
        """Whether the broker runs and is well."""
        return self.broker.process.exit_status is None and self.broker.rest.is_healthy()


def measure_baseline(bystander: Bystander) -> float:
    """Return the longest gap of the client while nobody attacks, in milliseconds."""
    start = time.monotonic()
    time.sleep(BASELINE_S)
    end = time.monotonic()
    bystander.settle()
    return bystander.experience(start, end).gap
