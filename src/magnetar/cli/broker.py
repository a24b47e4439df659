"""``magnetar broker``: run the broker of one cluster."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.base.logs.log_limit import LogLimit
from magnetar.cli.broker_log import configure_log, log_problems
from magnetar.cli.ignored_keys import listed, log_ignored
from magnetar.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.fields import FieldInfo

log = structlog.get_logger(__name__)

app = typer.Typer()

_HELP = """Run the broker of one cluster until SIGINT or SIGTERM.

Settings are read from the file --config (key=value lines, as in Pulsar's broker.conf), the environment
(MAGNETAR_<key>) and flags (--<key> VALUE). Flags override the environment, which overrides the file.
--list-settings prints every key with its default and meaning.

Keys of Pulsar that Magnetar does not have are ignored and reported. If ignoring a key is dangerous, the broker starts
only after it is acknowledged with --acknowledge-ignored. --check-config lists all ignored keys.

The first start in an empty data directory registers the cluster and creates the namespace public/default.
"""

_SETTINGS_AS_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command("standalone", help="Run a broker: another name of `magnetar broker`.", context_settings=_SETTINGS_AS_FLAGS)
@app.command(help=_HELP, context_settings=_SETTINGS_AS_FLAGS)
def broker(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="File with key=value lines.")] = None,
    *,
    list_settings: Annotated[
        bool, typer.Option("--list-settings", help="Print all settings, as a file for --config, and exit.")
    ] = False,
    check_config: Annotated[
        bool, typer.Option("--check-config", help="Check the settings, list those without an effect, and exit.")
    ] = False,
    acknowledge_ignored: Annotated[
        bool, typer.Option("--acknowledge-ignored", help="Start also if it is dangerous to ignore a key of Pulsar.")
    ] = False,
) -> None:
    """Run a broker in the foreground; raises ConfigurationError if the settings are invalid."""
    gc.disable()  # imports leave hardly any garbage, and the collector would examine all modules several times
    import uvloop  # noqa: PLC0415 - heavy, and needed by this command only

    from magnetar.broker.authentication.building import check_authentication  # noqa: PLC0415
    from magnetar.broker.resources.memory_limits import memory_limits  # noqa: PLC0415
    from magnetar.broker.resources.process import machine_memory_bytes  # noqa: PLC0415
    from magnetar.broker.service import Broker  # noqa: PLC0415
    from magnetar.broker.settings.config import BrokerConfig  # noqa: PLC0415
    from magnetar.broker.settings.loading import load, log_format  # noqa: PLC0415

    gc.enable()
    if list_settings:
        print("\n\n".join(_described(*each) for each in BrokerConfig.model_fields.items()))  # noqa: T201 - the output
        return
    if not __debug__:
        message = "the broker does not run under python -O\nhint: omit -O; the broker's assertions protect the data"
        raise ConfigurationError(message)
    flags = _flags(context.args)
    try:
        loaded = load(config, os.environ, flags, acknowledge_all=acknowledge_ignored)
        if check_config:
            memory_limits(loaded.config, machine_memory_bytes())
            check_authentication(loaded.config)
    except ConfigurationError as error:
        if log_format(config, os.environ, flags) == "json":
            log_problems(error)
            raise typer.Exit(1) from None
        raise
    if check_config:
        say("\n".join([f"the configuration of cluster {loaded.config.clusterName} is valid", *listed(loaded.ignored)]))
        return
    log_limit = LogLimit(time.monotonic)
    configure_log(loaded.config, log_limit)
    log_ignored(loaded.ignored)
    try:
        uvloop.run(Broker(loaded.config, log_limit=log_limit).run())
    except MagnetarError as error:
        is_json = loaded.config.logFormat == "json"
        if is_json or loaded.config.logFile:
            log.critical("broker_failed", error=str(error))
        if is_json and not loaded.config.logFile:
            raise typer.Exit(1) from None  # all lines on stderr are JSON
        raise


def _described(key: str, field: FieldInfo) -> str:
    """Return a setting with its default as lines of a configuration file."""
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    default = "" if default is None else default
    comment = wrap(str(field.description), 118, initial_indent="# ", subsequent_indent="# ")
    return "\n".join([*comment, f"{key}={default}"])


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
