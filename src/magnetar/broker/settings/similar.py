"""Hints about misspelt names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SIMILARITY_MIN = 0.8
"""Share of equal characters from which a name is suggested."""


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` probably means; upper case and separators make no difference."""
    by_form: dict[str, str] = {}
    for each in known:
        by_form.setdefault(_form(each), each)
    found = get_close_matches(_form(name), by_form, n=1, cutoff=_SIMILARITY_MIN)
    return by_form[found[0]] if found else None


def same_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs from ``name`` by upper case and separators only."""
    form = _form(name)
    return next((each for each in known if _form(each) == form), None)


def _form(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(".", "")
