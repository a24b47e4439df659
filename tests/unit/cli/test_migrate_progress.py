"""The progress of ``magnetar migrate run``, and the place of its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.cli.migrate_run import directory_of, standing_json, standing_text
from magnetar.migration.machine.tables import Stage
from magnetar.migration.running.runner import Standing

if TYPE_CHECKING:
    from pathlib import Path


def test_the_journal_is_below_the_state_directory_of_the_user(tmp_path: Path) -> None:
    assert directory_of("shop", None, {"XDG_STATE_HOME": "/s"}).as_posix() == "/s/magnetar/migrations/shop"
    relative = directory_of("shop", None, {"XDG_STATE_HOME": "s"})
    assert relative.as_posix().endswith("/.local/state/magnetar/migrations/shop")
    assert directory_of("shop", tmp_path) == tmp_path


def test_progress_is_shown_with_rate_and_time() -> None:
    known = Standing(step=Stage.DATA, topics=2, topics_total=5, left=1_200, per_second=600.0, eta_s=2.0)
    assert standing_text(known) == "data: 2 of 5 topics, 1,200 left, 600/s, about 2 s"
    assert standing_json(known)["etaSeconds"] == 2.0
    growing = Standing(step=Stage.DATA, topics=2, topics_total=5, left=9, per_second=-1.0, waits_for="t: no pipeline")
    assert standing_text(growing) == "data: 2 of 5 topics, 9 left, -1/s, time unknown, t: no pipeline"
    unknown = Standing(step=Stage.PROGRESS, topics=0, topics_total=1)
    assert standing_text(unknown) == "progress: 0 of 1 topics, unknown left"
    assert standing_json(unknown)["left"] is None
