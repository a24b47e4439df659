"""``magnetar broker``: run the broker of one cluster."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from magnetar.base.errors import ConfigurationError
from magnetar.base.log_limit import LogLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = """Run the broker of one cluster until SIGINT or SIGTERM.

Settings are read from the file --config (key=value lines, as in Pulsar's broker.conf), the environment
(MAGNETAR_<key>) and flags (--<key> VALUE). Flags override the environment, which overrides the file.
--list-settings prints every key with its default and meaning.
"""


def broker(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="File with key=value lines.")] = None,
    *,
    list_settings: Annotated[bool, typer.Option("--list-settings", help="Print all settings and exit.")] = False,
) -> None:
    """Run a broker in the foreground; raises ConfigurationError if the settings are invalid."""
    import uvloop  # noqa: PLC0415 - heavy, and needed by this command only

    from magnetar.broker.service import Broker  # noqa: PLC0415
    from magnetar.broker.settings.config import BrokerConfig, load  # noqa: PLC0415

    if list_settings:
        for key, field in BrokerConfig.model_fields.items():
            print(f"{key}={field.default}  # {field.description}")  # noqa: T201 - this is the command's output
        return
    if not __debug__:
        message = "the broker does not run under python -O\nhint: omit -O; the broker's assertions protect the data"
        raise ConfigurationError(message)
    settings = load(config, os.environ, _flags(context.args))
    log_limit = LogLimit(time.monotonic)
    _log_to_stderr(log_limit)
    uvloop.run(Broker(settings, log_limit=log_limit).run())


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    """Return settings given as ``--key VALUE`` or ``--key=VALUE``; raises ConfigurationError for others."""
    flags: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        key, separator, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--"):
            message = f"unexpected argument {argument!r}\nhint: pass settings as --key VALUE"
            raise ConfigurationError(message)
        if not separator:
            found = next(rest, None)
            if found is None:
                message = f"setting --{key} has no value\nhint: pass settings as --key VALUE"
                raise ConfigurationError(message)
            value = found
        flags[key] = value
    return flags


def _log_to_stderr(log_limit: LogLimit) -> None:
    """Log to stderr: readable lines on a terminal, JSON lines otherwise."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            log_limit,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
