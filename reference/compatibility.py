"""The page that compares the admin API with that of Apache Pulsar."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from magnetar.admin.api import served_routes
from magnetar.admin.exchange import Context
from magnetar.admin.pulsar_api.differences import DIFFERENCES
from magnetar.admin.pulsar_api.routes import GROUPS, NEVER, Status, by_key
from reference.broker import administration
from reference.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.admin.exchange import AdminRoute
    from magnetar.admin.pulsar_api.routes import Group, PulsarRoute

_ABOUT = f"""\
The routes of the admin API of Apache Pulsar 4.0 (v2 and v3), and their status in Magnetar:

* *implemented*: with the parameters, answers and errors of Apache Pulsar, except for the [other
  answers](#other-answers) below.
* *stored without effect*: the broker stores the value and returns it. Nothing else depends on it.
* *not built yet*: refused with status 501 and a reason that names the feature. GET of a policy returns the answer
  for an unset policy.
* *never*: refused with status 501 and the reason "{NEVER}".

`make interop` runs each command of `pulsar-admin` in both systems, and fails for a difference that this page does not
name.
"""

_OTHER_ANSWERS = "Served routes whose answer differs from that of Apache Pulsar."


def page() -> str:
    """Return a summary, and a table of paths for each group of routes."""
    served = by_key(served_routes(Context(*administration())))
    counts = Counter(each.status(served) for group in GROUPS for each in group.routes())
    summary = table(("status", "routes"), [(status.value, str(counts[status])) for status in Status])
    return "\n".join([_ABOUT, summary, _other_answers(), *(_section(group, served) for group in GROUPS)])


def _other_answers() -> str:
    rows = [(f"{method} {code(path)}", about) for (method, path), about in DIFFERENCES.items()]
    return f"## Other answers\n\n{_OTHER_ANSWERS}\n\n{table(('route', 'difference'), rows)}"


def _section(group: Group, served: Mapping[tuple[str, str], AdminRoute]) -> str:
    methods: dict[str, dict[Status, list[PulsarRoute]]] = {}
    for each in group.routes():
        methods.setdefault(each.path, {}).setdefault(each.status(served), []).append(each)
    rows = [
        (code(path), *(", ".join(each.method for each in by_status.get(status, ())) for status in Status))
        for path, by_status in methods.items()
    ]
    return f"## {group.title.capitalize()}\n\n{table(('path', *(each.value for each in Status)), rows)}"
