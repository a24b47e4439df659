"""Readers: they come and go, lose their connection, and ask for messages again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.world import Action, Happening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.sim.clients.reader import SimReader

READERS_MAX = 3
"""Readers at a time."""


class Readers(Happening):
    """See the module."""

    name = "readers"
    share = 0.5

    def actions(self) -> Iterable[Action]:
        """See Happening."""
        return (
            Action("reader comes", 1, self._come),
            Action("reader leaves", 0.5, self._leave),
            Action("reader loses its connection", 1.5, lambda: self._on_some(lambda reader: reader.start_over())),
            Action("reader asks for messages again", 1, lambda: self._on_some(lambda reader: reader.refuse())),
        )

    def begin(self) -> None:
        """See Happening."""
        self._come()

    def _come(self) -> bool:
        if len(self.world.readers) >= READERS_MAX:
            return False
        topic = self.chance.choice(self.world.scenario.topics)
        self.world.add_reader(topic, self.chance.choice(list(self.world.sites)))
        return True

    def _leave(self) -> bool:
        def leave(reader: SimReader) -> bool:
            self.world.readers.remove(reader)
            reader.stop()
            return True

        return self._on_some(leave)

    def _on_some(self, work: Callable[[SimReader], bool]) -> bool:
        return bool(self.world.readers) and work(self.chance.choice(self.world.readers))
