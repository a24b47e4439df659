"""Readers: creation, closing, lost connections, and redelivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.clients.reader import SimReader

READERS_MAX = 3
"""Maximum number of readers at a time."""


class Readers(ActionGroup):
    """See the module."""

    name = "readers"
    share = 0.5

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("reader comes", 1, self._come),
            Action("reader leaves", 0.5, self._leave),
            Action("reader loses its connection", 1.5, lambda: self._on_some(lambda reader: reader.start_over())),
            Action("reader asks for messages again", 1, lambda: self._on_some(lambda reader: reader.refuse())),
        )

    def begin(self) -> None:
        """See ActionGroup."""
        self._come()

    def _come(self) -> bool:
        if len(self.simulation.readers) >= READERS_MAX:
            return False
        topic = self.chance.choice(self.simulation.scenario.topics)
        self.simulation.add_reader(topic, self.chance.choice(list(self.simulation.sites)))
        return True

    def _leave(self) -> bool:
        def leave(reader: SimReader) -> bool:
            self.simulation.readers.remove(reader)
            reader.stop()
            return True

        return self._on_some(leave)

    def _on_some(self, work: Callable[[SimReader], bool]) -> bool:
        return bool(self.simulation.readers) and work(self.chance.choice(self.simulation.readers))
