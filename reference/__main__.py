"""``make reference``: regenerate the pages."""

from __future__ import annotations

from reference.pages import DIRECTORY, pages


def main() -> None:
    """Write all pages, and remove obsolete ones."""
    made = pages()
    DIRECTORY.mkdir(exist_ok=True)
    for old in DIRECTORY.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (DIRECTORY / name).write_text(text)


if __name__ == "__main__":
    main()
