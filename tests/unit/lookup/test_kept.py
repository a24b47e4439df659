from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError, CorruptionError
from magnetar.base.real import SystemFiles
from magnetar.lookup.kept import KeptKnowledge
from magnetar.lookup.knowledge import Knowledge
from tests.unit.lookup.test_knowledge import STATEMENTS

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    kept, knowledge = KeptKnowledge(SystemFiles(), tmp_path / "a" / "b"), Knowledge()
    assert kept.read(None) is None
    for each in STATEMENTS:
        knowledge.learn(each)
        kept.write(knowledge.to_json())
    found = KeptKnowledge(SystemFiles(), tmp_path / "a" / "b").read("lga")
    assert found is not None
    assert found.to_json() == knowledge.to_json()


@pytest.mark.parametrize(("before", "after"), [('"epoch": 7', '"epoch": 8'), ("{", ""), ('"routes"', '"rout"')])
def test_a_damaged_file_is_named(tmp_path: Path, before: str, after: str) -> None:
    kept, knowledge = KeptKnowledge(SystemFiles(), tmp_path), Knowledge()
    knowledge.learn(STATEMENTS[1])
    kept.write(knowledge.to_json())
    path = tmp_path / "routes.json"
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(CorruptionError, match=r"routes\.json is damaged"):
        kept.read(None)


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "routes.json").write_text('{"version": 2}')
    with pytest.raises(ConfigurationError, match="format version 2"):
        KeptKnowledge(SystemFiles(), tmp_path).read(None)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot use the directory .*: Not a directory"):
        KeptKnowledge(SystemFiles(), tmp_path / "a" / "b")
