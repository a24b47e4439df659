"""The catalogue of hostile behaviours: each is a function that attacks a running broker for some seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_SECONDS = 4.0
"""Duration of an attack that names none."""

ELSEWHERE = "elsewhere"
"""Name of a cluster that the broker knows and where nobody listens."""


class Place(NamedTuple):
    """Where to attack."""

    service_url: str
    admin_url: str
    namespace: str
    """``tenant/namespace`` of the topics under attack."""
    cluster: str
    """Name of the cluster under attack."""
    peer: str
    """Name of another cluster, which links may be forged from."""


@dataclass(frozen=True, slots=True)
class Target:
    """The broker under attack, as its attacker sees it."""

    place: Place
    deadline: float
    """End of the attack on the monotonic clock, in seconds."""

    @property
    def service_url(self) -> str:
        """URL of the binary protocol."""
        return self.place.service_url

    @property
    def admin_url(self) -> str:
        """URL of the REST API."""
        return self.place.admin_url

    @property
    def namespace(self) -> str:
        """``tenant/namespace`` of the topics under attack."""
        return self.place.namespace

    def topic(self, name: str = "t") -> str:
        """Return the full name of a topic in the namespace of the attack."""
        return f"persistent://{self.namespace}/{name}"

    @property
    def is_time_left(self) -> bool:
        """Whether the attack goes on."""
        return time.monotonic() < self.deadline

    @property
    def seconds_left(self) -> float:
        """Seconds until the end of the attack, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the binary protocol."""
        return _address(self.service_url)

    @property
    def web_address(self) -> tuple[str, int]:
        """Host and port of the REST API."""
        return _address(self.admin_url)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One hostile behaviour."""

    name: str
    """Family and function, such as ``garbage-random-bytes``."""
    text: str
    """One sentence for the reader of the table."""
    attack: Callable[[Target], int]
    """Attack until the deadline and return the count of hostile acts: at least one, else nothing was tested."""
    seconds: float = DEFAULT_SECONDS
    processes: int = 1
    """Processes that attack at the same time."""
    policies: Mapping[str, object] = field(default_factory=dict)
    """Policies of the namespace under attack: the last part of their REST path, and the value."""


BEHAVIOURS: dict[str, Behaviour] = {}
"""All behaviours by name, in the order of their definition; complete once ``tests.hostile.attacks`` is imported."""


def behaviour(
    text: str,
    *,
    seconds: float = DEFAULT_SECONDS,
    processes: int = 1,
    policies: Mapping[str, object] | None = None,
) -> Callable[[Callable[[Target], int]], Callable[[Target], int]]:
    """Register the decorated function under the name of its module and its own."""

    def register(attack: Callable[[Target], int]) -> Callable[[Target], int]:
        family = attack.__module__.rpartition(".")[2]
        name = f"{family}-{attack.__name__.replace('_', '-')}"
        assert name not in BEHAVIOURS, f"{name} is defined twice"
        BEHAVIOURS[name] = Behaviour(name, text, attack, seconds, processes, policies or {})
        return attack

    return register


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port
