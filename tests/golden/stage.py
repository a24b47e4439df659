"""What scenarios are made of: a stage to play on, and the list of all that is recorded."""

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
    """What a scenario plays on: a recorded broker, with a namespace of its own in it."""

    namespace: str
    """The scenario's own."""
    proxy: RecordingProxy
    operator: RestOperator
    journal: Journal
    clients: list[pulsar.Client] = field(default_factory=list)

    def topic(self, local_name: str = "t") -> str:
        """Return a topic of the scenario's namespace."""
        return f"persistent://{self.namespace}/{local_name}"

    def client(self, **options: Option) -> pulsar.Client:
        """Connect a client; it is closed at the end."""
        self.clients.append(connect(self.proxy.service_url, **options))
        return self.clients[-1]

    def cut(self) -> None:
        """Break every connection, as a network would."""
        self.proxy.cut()

    def wait_for(self, command: str, count: int) -> None:
        """Wait until a command of this type was said ``count`` times in all."""
        events = self.journal.events

        def said() -> bool:
            return count <= sum(isinstance(event, Said) and name_of(event.frame.command) == command for event in events)

        wait_until(said, what=f"{count} times {command}")

    def operate(self, action: str, *arguments: str) -> None:
        """Let the operator do something, and note it."""
        self.journal.note(Operated(action, arguments))
        self.operator.operate(action, *arguments)


@dataclass(frozen=True)
class Scenario:
    """A story to record, and the settings of the broker that it is recorded from."""

    play: Callable[[Stage], None]
    settings: Mapping[str, object] = field(default_factory=dict)
    """Keys of ``broker.conf`` that Magnetar has as well."""
    peer_settings: Mapping[str, object] = field(default_factory=dict)
    """Keys that make Apache Pulsar what Magnetar always is."""

    @property
    def name(self) -> str:
        """The name of its transcript."""
        return self.play.__name__

    @property
    def summary(self) -> str:
        """What the transcript shows."""
        assert self.play.__doc__ is not None
        return self.play.__doc__.strip()


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    settings: Mapping[str, object] = NO_SETTINGS, peer_settings: Mapping[str, object] = NO_SETTINGS
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Enter the function into the list of what is recorded."""

    def enter(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        entered = Scenario(play, settings, peer_settings)
        SCENARIOS[entered.name] = entered
        return play

    return enter
