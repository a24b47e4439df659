"""Check that PySpark and its Java are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.ops.java import HINT, require_java

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def require_spark(environment: Mapping[str, str], find: Callable[[str], object | None] = find_spec) -> None:
    """Raise ConfigurationError, with a hint, unless PySpark and Java are installed.

    ``find`` returns None for a module that is missing.
    """
    if find("pyspark") is None:
        message = "the pipeline runs on Spark, and PySpark is not installed\nhint: pip install 'magnetar[pipeline]'"
        raise ConfigurationError(message)
    try:
        require_java(environment)
    except ConfigurationError as error:
        message = f"{error}\nhint: {HINT}"
        raise ConfigurationError(message) from None
