"""Sources of the documentation site: ``python -m reference.site DIRECTORY`` copies all pages with their pictures.

The tree of the repository stays as it is, so that links between pages work in both. The decisions get a list.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DECISIONS = "docs/adr"


def sources() -> list[Path]:
    """Return the pages, their pictures and the files that they link to, relative to the root."""
    found = [*ROOT.glob("*.md"), ROOT / "LICENSE"]
    for folder in ("docs", "deploy"):
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".md", ".svg"}]
    found += (ROOT / "docs").rglob("*.json")
    return sorted(path.relative_to(ROOT) for path in found)


def write(directory: Path) -> None:
    """Copy all sources to ``directory``, and write the list of decisions."""
    for path in sources():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = (ROOT / path).read_text(encoding="utf-8")
            target.write_text(text.replace(f"]({DECISIONS})", f"]({DECISIONS}/README.md)"), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)
    (directory / DECISIONS / "README.md").write_text(_decisions(), encoding="utf-8")


def _decisions() -> str:
    lines = []
    for path in sorted((ROOT / DECISIONS).glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"* [{title.replace('. ', ': ', 1)}]({path.name})\n")
    return "# Decisions\n\n" + "".join(lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
