"""Tools of other ecosystems that the tests run: from the PATH, or from the Go module proxy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
COMPOSE_GO = "github.com/compose-spec/compose-go/v2@v2.16.2"
"""The library with which Docker Compose reads its files."""


def helm(directory: Path) -> str:
    """Return the path of Helm. If it is not installed, build it in ``directory``: minutes the first time."""
    installed = shutil.which("helm")
    if installed is not None:
        return installed
    subprocess.run([_go(), "install", HELM], env={**os.environ, "GOBIN": str(directory)}, check=True)
    return str(directory / "helm")


def compose_schema(directory: Path) -> dict[str, Any]:
    """Return the JSON schema of compose files."""
    command = [_go(), "mod", "download", "-json", COMPOSE_GO]
    downloaded = subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout
    schema = Path(json.loads(downloaded)["Dir"], "schema", "compose-spec.json")
    return dict(json.loads(schema.read_text(encoding="utf-8")))


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    return go
