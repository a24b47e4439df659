"""Encoding of large answers as JSON, in steps between which other work is done."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from magnetar.admin.models.model import Model, to_json

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

NAMES_AT_ONCE = 1000
"""Names that are encoded in a step, which takes some 100 us."""


def encoding(value: object) -> Generator[None, None, str]:
    """Encode a value as JSON in steps, one for each Model in it."""
    match value:
        case Model():
            text = yield from encoding(value.members())
            yield
        case dict():
            members: list[str] = []
            for name, each in value.items():
                members.append(f"{_dumps(name)}:{(yield from encoding(each))}")
            text = f"{{{','.join(members)}}}"
        case list():
            parts: list[str] = []
            for each in value:
                part = yield from encoding(each)
                parts.append(part)
            text = f"[{','.join(parts)}]"
        case _:
            text = _dumps(to_json(value))
    return text


def encoding_names(names: Sequence[str]) -> Generator[None, None, str]:
    """Encode names as JSON in steps."""
    parts: list[str] = []
    for first in range(0, len(names), NAMES_AT_ONCE):
        parts.append(_dumps(names[first : first + NAMES_AT_ONCE])[1:-1])
        yield
    return f"[{','.join(parts)}]"


_dumps = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""Encoder with the options of Starlette's JSONResponse."""
