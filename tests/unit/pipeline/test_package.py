"""The package for executors."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.driver import package
from magnetar.pipeline.driver.package import check_package, difference, lacking, requirements

if TYPE_CHECKING:
    from pathlib import Path

OWN = {"magnetar": "1", "python": "3.11", "platform": "linux-x86_64", "sources": "a"}


@dataclass
class Distribution:
    """An installed package."""

    requires: list[str] | None = field(default_factory=list)


INSTALLED: dict[str, Any] = {
    "magnetar": Distribution(["a>=1", "b; extra == 'spark'", "c; extra == 'dev'", "d; python_version < '3'"]),
    "a": Distribution(["Under_Score[x]"]),
    "b": Distribution(["pyspark", "a"]),
    "under-score": Distribution(["e; extra == 'x'", "magnetar"]),
    "e": Distribution(None),
}


def test_the_requirements_of_extras_are_followed_and_those_of_spark_left_out() -> None:
    assert sorted(requirements("magnetar", frozenset({"spark"}), INSTALLED.__getitem__)) == [
        "a",
        "b",
        "e",
        "magnetar",
        "under-score",
    ]


def test_a_loaded_package_that_is_not_packed_is_named() -> None:
    loaded = {"json": "/usr/lib/json.py", "a.b": "/x/site-packages/a/b.py", "c": "/x/site-packages/c.so"}
    assert lacking(["a/b.py", "d.py"], loaded) == ["c"]
    assert lacking(["a/b.py", "c.cpython-311.so"], {**loaded, "pyspark": "/x/site-packages/pyspark.py"}) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"python": "3.9"}, "was built for another Python: 3.9, here 3.11"),
        ({"platform": "macosx"}, "was built for another platform: macosx, here linux-x86_64"),
        ({"magnetar": "2"}, "was built for another version of Magnetar: 2, here 1"),
        ({"sources": "b"}, "was built from other sources of Magnetar"),
    ],
)
def test_a_package_of_another_installation_is_refused(changed: dict[str, str], problem: str) -> None:
    assert difference({**OWN, **changed}, OWN) == problem


def test_a_package_is_recognized_by_its_first_file(tmp_path: Path) -> None:
    path = tmp_path / "package.tar.gz"
    write(path, "magnetar-package.json", json.dumps(package._manifest()).encode())
    check_package(path)
    write(path, "environment/bin/python", b"")
    with pytest.raises(ConfigurationError, match=f"{path} is not a package of Magnetar\nhint: magnetar"):
        check_package(path)
    path.write_bytes(b"no archive")
    with pytest.raises(ConfigurationError, match="cannot read"):
        check_package(path)


def write(path: Path, name: str, data: bytes) -> None:
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
