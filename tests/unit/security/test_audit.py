from __future__ import annotations

import json

from magnetar.security.audit import TEXT_LENGTH_MAX, AuditEvent, Kind, Result, line
from magnetar.security.principal import Principal

NOON = 1_777_888_800.25


def test_an_event_is_one_line_with_what_is_known() -> None:
    event = AuditEvent(
        Kind.AUTHORIZATION,
        Result.DENIED,
        "CONSUME",
        "persistent://shop/web/orders",
        Principal("proxy", "token", "alice"),
        "/10.0.0.7:41312",
        "billing\n",
        reason="no permission",
    )
    text = line(event, "ewr", NOON)
    assert "\n" not in text
    assert json.loads(text) == {
        "time": "2026-05-04T10:00:00.250Z",
        "cluster": "ewr",
        "event": "authorization",
        "result": "denied",
        "role": "proxy",
        "original_role": "alice",
        "address": "10.0.0.7:41312",
        "operation": "CONSUME",
        "resource": "persistent://shop/web/orders",
        "subscription": "billing\n",
        "reason": "no permission",
    }
    failed = json.loads(
        line(AuditEvent(Kind.ADMIN, Result.FAILED, "PUT", "/admin/v2/tenants/x", status=409), "ewr", NOON)
    )
    assert {name: failed[name] for name in failed if name not in ("time", "cluster")} == {
        "event": "admin_change",
        "result": "failed",
        "operation": "PUT",
        "resource": "/admin/v2/tenants/x",
        "status": 409,
    }


def test_long_texts_are_cut() -> None:
    found = json.loads(line(AuditEvent(Kind.ADMIN, Result.ALLOWED, "PUT", "x" * 5000), "ewr", NOON))
    assert len(found["resource"]) == TEXT_LENGTH_MAX
