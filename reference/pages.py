"""All pages by file name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reference import broker_conf, command_line, compatibility, configuration, metrics, openapi, policies, rest
from reference.markdown import table

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY = Path(__file__).parent.parent / "docs" / "reference"

_OPENAPI = "openapi.json"

_NOTE = "This page is generated from the code by `make reference`. Do not edit it."

_PAGES = {
    "broker-conf.md": ("Keys of Pulsar's broker.conf", "Their effects, and other defaults.", broker_conf.page),
    "cli.md": ("Command line", "All commands with their arguments and options.", command_line.page),
    "compatibility.md": ("Compatibility matrix", "The routes of Apache Pulsar, and their status.", compatibility.page),
    "configuration.md": ("Configuration", "All settings of a broker.", configuration.page),
    "metrics.md": ("Metrics", "All metrics of a broker.", metrics.page),
    "policies.md": ("Policies", "All policies that namespaces and topics may set.", policies.page),
    "rest.md": ("Admin REST API", "All paths that a broker serves.", rest.page),
}


def pages() -> Mapping[str, str]:
    """Return the text of each page by file name."""
    made = {name: f"# {title}\n\n{_NOTE}\n\n{page()}" for name, (title, _, page) in _PAGES.items()}
    rows = [(f"[{title}]({name})", about) for name, (title, about, _) in _PAGES.items()]
    rows.append((f"[{_OPENAPI}]({_OPENAPI})", "The admin REST API as an OpenAPI document, for tools."))
    index = f"# Reference\n\n{_NOTE}\n\n{table(('page', 'content'), rows)}"
    return {"README.md": index, _OPENAPI: openapi.page(), **made}
