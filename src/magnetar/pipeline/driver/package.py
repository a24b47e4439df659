"""The package for executors of a Spark cluster: Magnetar and the packages that it needs, but Python and PySpark.

It is an archive of the directories that Python imports, for Python of the same minor version on the same kind of
machine. Spark unpacks it into the working directory of each executor (``spark.archives``).
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import sysconfig
import tarfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import magnetar
from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_MANIFEST = "magnetar-package.json"
"""First file of the archive."""

_OF_EXECUTORS = frozenset({"pyspark", "py4j"})
"""Packages of Spark, which executors have in Spark's own version."""

_LEFT_OUT = frozenset({"__pycache__", "tests"})
"""Directories without anything that a program imports."""

_COMPRESSION_LEVEL = 3
"""Level of gzip: higher ones take three times as long for a tenth of the size."""


def build_package(path: Path, modules: Sequence[str]) -> int:
    """Write the package of this installation to ``path``, for tasks that import ``modules``; return its size in bytes.

    Raises ConfigurationError if the installation does not name a package that they import, and OSError.
    """
    files = dict(_files())
    if missing := lacking(files, _loaded_by(modules)):
        message = (
            f"Magnetar's installation does not name {', '.join(missing)} among the packages that it needs"
            "\nhint: install it again: pip install 'magnetar[spark]', in a checkout: make setup"
        )
        raise ConfigurationError(message)
    temporary = path.with_name(f"{path.name}.new")
    with tarfile.open(temporary, "w:gz", compresslevel=_COMPRESSION_LEVEL) as archive:
        _add(archive, _MANIFEST, json.dumps(_manifest()).encode())
        for name, source in files.items():
            _add(archive, name, source.read_bytes())
    temporary.replace(path)
    return path.stat().st_size


def check_package(path: Path) -> None:
    """Raise ConfigurationError unless ``path`` is the package of this installation."""
    hint = f"hint: magnetar pipeline package {path}"
    try:
        with tarfile.open(path) as archive:
            first = archive.next()
            found = archive.extractfile(first) if first is not None and first.name == _MANIFEST else None
            manifest = None if found is None else json.load(found)
    except (OSError, tarfile.TarError) as error:
        message = f"--package: cannot read {path}: {error}\n{hint}"
        raise ConfigurationError(message) from None
    if problem := difference(manifest, _manifest()):
        message = f"--package: {path} {problem}\n{hint}"
        raise ConfigurationError(message)


def difference(manifest: Any, own: dict[str, str]) -> str:  # noqa: ANN401 - JSON
    """Return how the manifest of a package differs from that of this installation; empty if it is the same."""
    if manifest is None:
        return "is not a package of Magnetar"
    for field, text in (("python", "Python"), ("platform", "platform"), ("magnetar", "version of Magnetar")):
        if manifest.get(field) != own[field]:
            return f"was built for another {text}: {manifest.get(field)}, here {own[field]}"
    return "" if manifest == own else "was built from other sources of Magnetar"


def lacking(names: Iterable[str], loaded: Mapping[str, str]) -> list[str]:
    """Return the packages among ``loaded``, modules with their files, that have no file among ``names``; sorted."""
    packed = {name.partition("/")[0].partition(".")[0] for name in names} | _OF_EXECUTORS
    installed = (name.partition(".")[0] for name, file in loaded.items() if "site-packages" in file)
    return sorted({name for name in installed if not name.startswith("_")} - packed)


def requirements(
    name: str, extras: frozenset[str], find: Callable[[str], metadata.Distribution] = metadata.distribution
) -> dict[str, metadata.Distribution]:
    """Return the distributions that ``name`` with ``extras`` needs, itself included, without those of Spark."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - not needed otherwise

    found: dict[str, metadata.Distribution] = {}
    known: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, extras)]
    while waiting:
        wanted = waiting.pop()
        if wanted in known or wanted[0] in _OF_EXECUTORS:
            continue
        known.add(wanted)
        distribution = found[wanted[0]] = find(wanted[0])
        for text in distribution.requires or []:
            requirement = Requirement(text)
            marker, given = requirement.marker, wanted[1] or {""}
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in given):
                waiting.append((requirement.name.lower().replace("_", "-"), frozenset(requirement.extras)))
    return found


def _loaded_by(modules: Sequence[str]) -> dict[str, str]:
    """Return the modules that an import of ``modules`` loads, with their files."""
    program = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps({name: getattr(each, '__file__', None) or '' for name, each in sys.modules.items()}))"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, *modules]
    done = subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - this program
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _manifest() -> dict[str, str]:
    root = Path(magnetar.__file__).parent
    sources = hashlib.sha256()
    for path in _modules(root):
        sources.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return {
        "magnetar": magnetar.__version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "platform": sysconfig.get_platform(),
        "sources": sources.hexdigest(),
    }


def _files() -> Iterator[tuple[str, Path]]:
    """Yield the names in the archive and the files, sorted within each distribution."""
    root = Path(magnetar.__file__).parent
    yield from ((f"magnetar/{path.relative_to(root)}", path) for path in _modules(root))
    for name, distribution in sorted(requirements("magnetar", frozenset({"spark"})).items()):
        if name != "magnetar":  # it may be installed as a reference to its sources
            yield from sorted(_installed(distribution))


def _modules(root: Path) -> list[Path]:
    found = (path for path in root.rglob("*") if path.is_file())
    return sorted(path for path in found if not _LEFT_OUT.intersection(path.relative_to(root).parts))


def _installed(distribution: metadata.Distribution) -> Iterable[tuple[str, Path]]:
    for file in distribution.files or []:
        path = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and not _LEFT_OUT.intersection(file.parts) and path.is_file():
            yield str(file), path


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
