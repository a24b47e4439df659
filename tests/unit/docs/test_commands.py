"""The commands in all pages: whether the command line accepts them. The tests of guides also run them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.guides.page import ROOT, read_page
from tests.kit.command_line import InvalidCommandError, require_valid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
BEFORE_COMMANDS = {"do", "else", "if", "sudo", "then", "until", "while", "!"}


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each ``magnetar`` in a shell script."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.replace("$(", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command: list[str] = []
        for token in [*lexer, ";"]:
            if not re.fullmatch(r"[;&|()<>]+", token):
                command.append(token)
                continue
            while command and (command[0] in BEFORE_COMMANDS or re.match(r"[A-Za-z_]+=", command[0])):
                del command[0]
            if command and command[0].rpartition("/")[2] == "magnetar":
                yield [word for word in command[1:] if word != "2"]  # of 2>/dev/null
            command = []


def written(page: Path) -> Iterator[list[str]]:
    for block in read_page(page).blocks:
        if block.language == "console":
            for command in block.commands():
                yield from commands_of(command.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_command_line_accepts_the_commands_of_a_page(page: Path) -> None:
    for arguments in written(page):
        require_valid(arguments)


def test_the_commands_are_found() -> None:
    assert sum(len(list(written(page))) for page in PAGES) > 60
    script = (
        "for a in b; do X=1 /opt/magnetar/bin/magnetar topics list n/s 2>/dev/null && break; done | magnetar -o json"
    )
    assert list(commands_of(script)) == [["topics", "list", "n/s"], ["-o", "json"]]


def test_a_wrong_command_is_refused() -> None:
    with pytest.raises(InvalidCommandError):
        require_valid(["topics", "stats", "persistent://shop/orders/eu", "--wide"])
