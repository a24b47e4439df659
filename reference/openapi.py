"""The OpenAPI document of the admin REST API."""

from __future__ import annotations

import json
from typing import Any

import magnetar
from magnetar.admin.api import all_routes
from magnetar.admin.exchange import Context
from magnetar.admin.openapi.document import document
from reference.broker import administration

_LEVELS = 3
"""Levels of objects with a line for each member: below it, a method of a path, or a schema, is one line."""


def page() -> str:
    """Return the document."""
    return _written(document(all_routes(Context(*administration())), magnetar.__version__), _LEVELS) + "\n"


def _written(value: Any, levels: int) -> str:  # noqa: ANN401 - any JSON value
    if not levels or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    members = (f"{json.dumps(name)}: {_written(each, levels - 1)}" for name, each in value.items())
    return "{\n" + ",\n".join(members) + "\n}"
