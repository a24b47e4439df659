"""The code of an earlier commit, from the repository's history, to run beside the current code."""

from __future__ import annotations

import subprocess
from pathlib import Path

PREVIOUS_COMMIT = "554e37c77de2ab900128b3b2b66324af61648add"
"""The commit whose brokers and pipeline must work with the current code, which must also open its data directories.

To change it, enter the hash of a later commit of main, normally that of the last release, and run ``pytest
tests/chaos/test_previous_commit.py -m chaos``. Keep a commit for as long as upgrades from it are supported.
"""

ROOT = Path(__file__).resolve().parents[2]


class NoHistoryError(Exception):
    """The repository's history is missing or does not contain the commit, as in an archive or a shallow clone."""


def unpack_previous(directory: Path) -> dict[str, str]:
    """Unpack the commit's sources below ``directory``; return the environment variables to run them.

    Raises NoHistoryError if the commit is not in the history.
    """
    try:
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", PREVIOUS_COMMIT, "src"], check=True, capture_output=True
        ).stdout
    except FileNotFoundError as error:
        message = "git is not installed"
        raise NoHistoryError(message) from error
    except subprocess.CalledProcessError as error:
        message = f"commit {PREVIOUS_COMMIT[:7]} is not in this tree's history: {error.stderr.decode().strip()}"
        raise NoHistoryError(message) from error
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive, check=True)
    return {"PYTHONPATH": str(directory / "src")}
