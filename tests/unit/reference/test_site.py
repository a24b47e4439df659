from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from reference import site

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    site.write(directory)
    return directory


def anchors(page: Path) -> set[str]:
    """Return the ids of a page's headings, which the site and GitHub derive in the same way."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Return the links of a page to pages, files and headings that do not exist."""
    dead = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


def test_no_link_of_the_site_is_dead(copied: Path) -> None:
    pages = sorted(copied.rglob("*.md"))
    assert len(pages) > 30
    assert {str(page.relative_to(copied)): dead for page in pages if (dead := dead_links(page))} == {}


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Title\n\n## Some `code`, too\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md) [b](other.md#some-code-too) [c](other.md#no) [d](no.md) [e](#no)", encoding="utf-8")
    assert dead_links(page) == ["other.md#no", "no.md", "#no"]


def test_the_navigation_has_each_page_but_decisions(copied: Path) -> None:
    navigation = yaml.safe_load((ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = {str(page.relative_to(copied)) for page in copied.rglob("*.md")}
    listed = entries(navigation)
    assert len(listed) == len(set(listed))
    assert {page for page in pages if not re.match(rf"{site.DECISIONS}/\d", page)} == set(listed)


def entries(navigation: object) -> list[str]:
    """Return all pages of a navigation."""
    if isinstance(navigation, str):
        return [navigation]
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    assert not isinstance(parts, str)
    return [page for part in parts for page in entries(part)]  # type: ignore[attr-defined]


def test_the_decisions_are_listed_with_their_titles(copied: Path) -> None:
    text = (copied / site.DECISIONS / "README.md").read_text(encoding="utf-8")
    assert "* [1: Progress" in text
    assert len(LINK.findall(text)) == len(list((ROOT / site.DECISIONS).glob("0*.md")))
