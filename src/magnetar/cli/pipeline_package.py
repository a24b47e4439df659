"""``magnetar pipeline package``: build the package that executors of a Spark cluster need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, say, show_json
from magnetar.ops.spark import require_spark


def package(
    file: Annotated[Path, typer.Argument(help="File to write, as magnetar.tar.gz.", dir_okay=False)],
    *,
    output: OutputForm = Output.TEXT,
) -> None:
    """Write this installation of Magnetar and the packages that it needs to an archive, for --package.

    Executors then need only Python, of the minor version of this one and on the same kind of machine, and PySpark.
    """
    require_spark(os.environ)
    from magnetar.jobs.session import MODULES as OF_JOBS  # noqa: PLC0415 - Spark is heavy, and needs Java
    from magnetar.pipeline.driver.package import build_package  # noqa: PLC0415 - not needed by other commands
    from magnetar.pipeline.worker_daemon import MODULES as OF_LINKS  # noqa: PLC0415

    size = build_package(file, [*OF_LINKS, *OF_JOBS])
    if output is Output.JSON:
        show_json({"file": str(file), "bytes": size})
    else:
        say(f"{file} has {size / 2**20:.0f} MiB")
