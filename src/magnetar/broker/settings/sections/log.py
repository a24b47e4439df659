"""The settings of a broker's log."""

# ruff: noqa: N815 - the settings have the form of Pulsar's names

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class LogSettings(BaseModel):
    """Log, and audit log."""

    logLevel: Literal["debug", "info", "warning", "error"] = Field("info", description="Least important lines.")
    logFormat: Literal["auto", "text", "json"] = Field(
        "auto", description="Format of the lines; auto: text on a terminal, otherwise JSON."
    )
    logFile: str = Field("", description="File of the log, which the broker rotates; empty: stderr.")
    logFileMaxMB: int = Field(100, gt=0, description="Size at which the file is rotated.")
    logFilesKept: int = Field(
        10, ge=1, description="Number of rotated files that are kept, as `<logFile>.1` and so on."
    )
    auditLogFile: str = Field(
        "",
        description="File of the audit log: denials and administrative changes as lines of JSON. The broker rotates "
        "it. Empty: none.",
    )
    auditLogFileMaxMB: int = Field(100, gt=0, description="Size at which the file of the audit log is rotated.")
    auditLogFilesKept: int = Field(
        10, ge=1, description="Number of its rotated files that are kept, as `<auditLogFile>.1` and so on."
    )
    adminAccessLog: Literal["none", "changes", "all"] = Field(
        "changes",
        description="Calls of the REST API that are logged; changes: all except GET, HEAD and OPTIONS.",
    )
