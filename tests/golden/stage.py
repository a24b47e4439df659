"""The environment of scenarios, and the registry of all scenarios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.golden.transcript import Operated, Said, name_of
from tests.kit.messages import connect
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pulsar

    from tests.golden.operators import RestOperator
    from tests.golden.proxy import Journal, RecordingProxy
    from tests.kit.messages import Option

NO_SETTINGS: Mapping[str, object] = {}


@dataclass
class Stage:
    """The environment of a scenario: a recorded broker with a namespace."""

    namespace: str
    """The namespace of the scenario."""
    proxy: RecordingProxy
    operator: RestOperator
    journal: Journal
    clients: list[pulsar.Client] = field(default_factory=list)

    def topic(self, local_name: str = "t") -> str:
        """Return a topic of the scenario's namespace."""
        return f"persistent://{self.namespace}/{local_name}"

    def client(self, **options: Option) -> pulsar.Client:
        """Connect a client, which is closed at the end."""
        self.clients.append(connect(self.proxy.service_url, **options))
        return self.clients[-1]

    def cut(self) -> None:
        """Break every connection, as a network would."""
        self.proxy.cut()

    def wait_for(self, command: str, count: int) -> None:
        """Wait until ``count`` commands of this type were recorded."""
        events = self.journal.events

        def said() -> bool:
            return count <= sum(isinstance(event, Said) and name_of(event.frame.command) == command for event in events)

        wait_until(said, what=f"{count} times {command}")

    def operate(self, action: str, *arguments: str) -> None:
        """Run an operator's action, and record it."""
        self.journal.note(Operated(action, arguments))
        self.operator.operate(action, *arguments)


@dataclass(frozen=True)
class Scenario:
    """A scenario to record, with the settings of the recorded broker."""

    play: Callable[[Stage], None]
    settings: Mapping[str, object] = field(default_factory=dict)
    """Keys of ``broker.conf`` that Magnetar also has."""
    peer_settings: Mapping[str, object] = field(default_factory=dict)
    """Keys that give Apache Pulsar the fixed behaviour of Magnetar."""

    @property
    def name(self) -> str:
        """Return the name of the transcript."""
        return self.play.__name__

    @property
    def summary(self) -> str:
        """Return the summary in the transcript."""
        assert self.play.__doc__ is not None
        return self.play.__doc__.strip()


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    settings: Mapping[str, object] = NO_SETTINGS, peer_settings: Mapping[str, object] = NO_SETTINGS
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a function as a scenario."""

    def enter(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        entered = Scenario(play, settings, peer_settings)
        SCENARIOS[entered.name] = entered
        return play

    return enter
