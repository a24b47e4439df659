"""The consent of the operator to changes that lose data or strand topics."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

Force = Annotated[bool, typer.Option("--force", "-f", help="Do not ask for confirmation.")]
"""The option of commands that ask."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
"""The option of commands with a ``--force`` that does more than that."""


def require_consent(action: str, effects: Sequence[str], *, option: str = "--force") -> None:
    """Ask the operator for consent to an ``action`` and its ``effects``; raises FailedError without it.

    Without a terminal nobody can answer, and the action is refused. ``option`` is the one that gives consent.
    """
    text = f"this would {action}" + "".join(f"\n  {effect}" for effect in effects)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = f"nothing was changed; to do it, repeat the command with {option}"
        raise FailedError(Failure(ExitCode.FAILED, f"{text}\nconfirmation needs a terminal", hint))
    say(text)
    if not typer.confirm("Continue?", err=True):
        raise FailedError(Failure(ExitCode.FAILED, "not confirmed: nothing was changed"))
