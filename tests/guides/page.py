"""Pages of the documentation as scripts: their blocks of commands, and the output that each command shows.

A block ``console`` has commands after ``$ ``, which may go on in the next lines, each followed by its output. In an
output, ``…`` stands for any text. The comment ``<!-- not run: REASON -->`` before a block excludes it.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.+?) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(slots=True)
class Command:
    """A command of a page."""

    text: str
    output: list[str] = field(default_factory=list)
    """The lines that it prints according to the page."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code."""

    section: str
    """The heading above it."""
    language: str
    text: str
    reason: str | None
    """Why the tests do not run it; None if they do."""

    def commands(self) -> list[Command]:
        """Return the commands of a block ``console``."""
        found: list[Command] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(Command(line.removeprefix("$ ")))
            elif not is_complete(found[-1].text):
                found[-1].text += f"\n{line}"
            else:
                found[-1].output.append(line)
        return found


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its blocks."""

    path: Path
    blocks: tuple[Block, ...]

    def section(self, heading: str) -> list[Block]:
        """Return the blocks below ``heading``; raises KeyError if there are none."""
        found = [block for block in self.blocks if block.section == heading]
        if not found:
            raise KeyError(heading)
        return found


def read_page(path: Path) -> Page:
    """Parse a page."""
    text = path.read_text(encoding="utf-8")
    blocks = []
    for match in _BLOCK.finditer(text):
        headings = _HEADING.findall(_BLOCK.sub("", text[: match.start()]))
        blocks.append(Block(headings[-1] if headings else "", match["language"], match["text"], match["reason"]))
    return Page(path, tuple(blocks))


def guide(name: str) -> Page:
    """Return a page of ``docs/guides``."""
    return read_page(GUIDES / f"{name}.md")


def is_complete(command: str) -> bool:
    """Return whether the shell needs no further line to run ``command``."""
    if command.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode == 0
