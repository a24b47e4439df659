"""The commands of ``magnetar``, by name. The module of a command is imported when the command is used.

A broker starts some 0.1 s faster without the modules of the other commands and what these import.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer

from magnetar.cli.global_options import Passing

_COMMANDS = {
    "broker": "broker",
    "lookup": "lookup",
    "standalone": "broker",
    "check": "check",
    "up": "up",
    "demo": "demo",
    "simulate": "simulate",
}
"""Modules of the commands without verbs."""

_NOUNS = {
    "clusters": "clusters",
    "tenants": "tenants",
    "namespaces": "namespaces",
    "topics": "topic_subscriptions",
    "topicPolicies": "policies",
    "subscriptions": "subscriptions",
    "messages": "messages",
    "schemas": "schemas",
    "brokers": "brokers",
    "metadata": "metadata",
    "migrate": "migrate",
    "routes": "routes",
    "profiles": "profiles",
    "tokens": "tokens",
    "pipeline": "pipeline",
}
"""Modules of the commands with verbs."""


class Commands(Passing):
    """The root of the command line."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer does not export its classes
        """Return the names of all commands, in the order of the help."""
        return [*_COMMANDS, *_NOUNS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer does not export its classes
        """Return a command by name; None if there is none."""
        module = _COMMANDS.get(cmd_name) or _NOUNS.get(cmd_name)
        if module is None:
            return None
        group = _group(module)
        if cmd_name in _COMMANDS:
            return group.commands[cmd_name]
        group.name = cmd_name  # the help shows it
        return group


@cache
def _group(module: str) -> Any:  # noqa: ANN401 - typer does not export its classes
    """Return the commands of a module, which typer builds in some 20 ms."""
    return typer.main.get_group(import_module(f"magnetar.cli.{module}").app)
