"""Rules for the whole source tree."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from grimp import build_graph

from tests.kit.parallel import OWN_CLUSTERS, SHARED_CLUSTERS, SHARED_SPARK, unit_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "magnetar"
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 400
CLASS_LINES_MAX = 300
PUBLIC_METHODS_MAX = 25  # properties are methods, too
MODULES_MAX = 15

ONE_MODULE_PER_NOUN = ("cli",)
"""Packages that may have more modules."""

NO_GENERATED = [path for path in sorted(SOURCE.rglob("*.py")) if not path.name.endswith("_pb2.py")]


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines"
        for path in NO_GENERATED
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def oversized(path: Path) -> list[str]:
    """Return the limits that a module exceeds."""
    text = path.read_text(encoding="utf-8")
    name, lines = path.relative_to(SOURCE).as_posix(), text.count("\n")
    found = [f"{name}: {lines} lines"] if lines > MODULE_LINES_MAX else []
    for each in ast.walk(ast.parse(text)):
        if isinstance(each, ast.ClassDef):
            lines = (each.end_lineno or each.lineno) - each.lineno + 1
            methods = {node.name for node in each.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
            public = sum(not method.startswith("_") for method in methods)
            if lines > CLASS_LINES_MAX:
                found.append(f"{name}: class {each.name} has {lines} lines")
            if public > PUBLIC_METHODS_MAX:
                found.append(f"{name}: class {each.name} has {public} public methods")
    return found


def test_modules_and_classes_are_small() -> None:
    assert [problem for path in NO_GENERATED for problem in oversized(path)] == []


def test_packages_are_small() -> None:
    modules = Counter(path.parent.relative_to(SOURCE).as_posix() for path in NO_GENERATED if path.stem != "__init__")
    assert len(modules) > 20
    many = {package: count for package, count in modules.items() if count > MODULES_MAX}
    assert {package: count for package, count in many.items() if package not in ONE_MODULE_PER_NOUN} == {}


def test_unit_tests_do_not_wait_for_the_clock() -> None:
    word = "sle" + "ep"
    waiting = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests" / "unit").rglob("*.py"))
        if word in path.read_text(encoding="utf-8")
    ]
    assert waiting == []


def test_every_package_has_its_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layered = [contract for contract in contracts if contract["type"] == "layers"]
    assert [contract["containers"] for contract in layered] == [["magnetar"], ["magnetar.broker"]]
    for contract in layered:
        declared = {name.strip(" ()") for layer in contract["layers"] for name in re.split("[|:]", layer)}
        folder = SOURCE.parent.joinpath(*contract["containers"][0].split("."))
        packages = {path.parent.name for path in folder.glob("*/__init__.py")}
        assert len(packages) > 10
        assert packages - declared == set()


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    mentioned = re.compile(r"^[\s$]*make ([a-z-]+)|`make ([a-z-]+)", re.MULTILINE)
    used = {
        (document.name, match[1] or match[2])
        for document in documents
        for match in mentioned.finditer(document.read_text(encoding="utf-8"))
    }
    assert used
    assert {(document, target) for document, target in used if target not in targets} == set()


def test_every_relative_link_in_the_documents_leads_somewhere() -> None:
    broken = [
        f"{document.name}: {link}"
        for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
        if "://" not in link and not (document.parent / link).exists()
    ]
    assert broken == []


def test_nothing_names_a_place_outside_of_the_tree() -> None:
    outside = re.compile(r"(?<![\w.])/(?:work|root|home)/\w")
    naming = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        naming += [f"{path.relative_to(ROOT)}: {match.group()}" for match in outside.finditer(text)]
    assert naming == []


def test_continuous_integration_runs_what_a_newcomer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    commands = [line for line in script.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert commands == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "make check", "make test"]


def test_files_outside_the_unit_of_the_shared_clusters_do_not_use_them() -> None:
    for name in OWN_CLUSTERS:
        text = (ROOT / SHARED_CLUSTERS / name).read_text(encoding="utf-8")
        assert "up: Up" not in text, "two processes would start them"
        assert unit_of(f"{SHARED_CLUSTERS}/{name}::test_it") == f"{SHARED_CLUSTERS}/{name}"
    assert unit_of(f"{SHARED_CLUSTERS}/test_switch.py::test_it[a::b]") == SHARED_CLUSTERS
    assert unit_of("tests/unit/geo/test_lives.py::test_it") == "tests/unit/geo/test_lives.py"


def test_a_shared_spark_is_that_of_one_unit() -> None:
    for directory in SHARED_SPARK:
        assert 'scope="package"' in (ROOT / directory / "conftest.py").read_text(encoding="utf-8")
        assert (
            unit_of(f"{directory}/test_a.py::test_it[a::b]") == unit_of(f"{directory}/test_b.py::test_it") == directory
        )


def test_each_section_of_the_protocol_page_that_is_cited_is_there() -> None:
    titles = set(re.findall(r"^##? (.+)$", (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8"), re.MULTILINE))
    cited = {
        title: path.name
        for folder in ("src", "tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        for title in re.findall(r"\(protocol: (\w[^)]*)\)", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    assert {title: name for title, name in cited.items() if title not in titles} == {}


def test_the_glossary_is_sorted_and_names_modules_that_are_there() -> None:
    rows = re.findall(
        r"^\| (.+?) \| .* \| (.+?) \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )[1:]
    terms = [term for term, _ in rows]
    assert terms == sorted(terms)
    modules = {module for _, column in rows for module in re.findall(r"`([^`]+)`", column)}
    assert len(modules) > 20
    assert {module for module in modules if not (SOURCE / module).exists()} == set()


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = build_graph("magnetar")  # including imports for types only
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sum(map(len, imported.values())) > 1_000
    TopologicalSorter(imported).prepare()  # raises CycleError with the modules
