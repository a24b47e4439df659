from __future__ import annotations

from magnetar.sim.metasync.replay import Change, Kind, Stamp, kind_of, replay, stamps, units

PATH = "/admin/policies/acme/orders"
TTL = "/message_ttl_in_seconds"


def change(time_ms: int, cluster: str = "ewr", *, kind: Kind = Kind.NAMESPACE, **values: object) -> Change:
    created, deleted = bool(values.pop("created", False)), bool(values.pop("deleted", False))
    edits = {f"/{name}": value for name, value in values.items()}
    return Change(cluster, PATH, kind, edits, created, deleted, Stamp(time_ms, 0, cluster))


def test_the_later_change_counts_and_at_the_same_time_the_smaller_cluster() -> None:
    created = change(1, created=True, is_allow_auto_update_schema=False)
    changes = [change(2, "jfk", message_ttl_in_seconds=20), created, change(2, "ewr", message_ttl_in_seconds=10)]
    expected = replay(Kind.NAMESPACE, changes)
    assert expected.exists
    assert (expected.units[TTL], expected.units["/is_allow_auto_update_schema"]) == (10, False)
    later = replay(Kind.NAMESPACE, [*changes, change(3, message_ttl_in_seconds=None)])
    assert TTL not in later.units


def test_a_deletion_removes_the_values_before_it_and_a_later_change_does_not_restore_the_resource() -> None:
    changes = [change(1, created=True, message_ttl_in_seconds=1), change(2, deleted=True)]
    assert replay(Kind.NAMESPACE, changes) == replay(Kind.NAMESPACE, [])
    assert not replay(Kind.NAMESPACE, [*changes, change(3, message_ttl_in_seconds=3)]).exists
    again = replay(Kind.NAMESPACE, [*changes, change(4, created=True)])
    assert (again.exists, again.units.get(TTL)) == (True, None)


def test_the_number_of_partitions_only_grows() -> None:
    created, grown = change(1, kind=Kind.TOPIC, created=True, partitions=4), change(2, kind=Kind.TOPIC, partitions=3)
    assert replay(Kind.TOPIC, [created, grown]).units == {"/partitions": 4}


def test_the_route_with_the_later_epoch_counts_whatever_the_order_of_the_changes() -> None:
    changes = [
        change(1, kind=Kind.ROUTE, created=True, route={"cluster": "ewr", "epoch": 7}),
        change(2, kind=Kind.ROUTE, route={"cluster": "jfk", "epoch": 6}),
    ]
    assert replay(Kind.ROUTE, changes).units == {"/route": {"cluster": "ewr", "epoch": 7}}


def test_a_document_is_divided_as_the_synchronizer_divides_it() -> None:
    document = {
        "auth_policies": {"namespace_auth": {"a/b": ["produce"]}, "destination_auth": {"t": {"r": ["consume"]}}},
        "backlog_quota_map": {"message_age": {"limitTime": 1}},
        "bundles": {"numBundles": 1},
        "replication_clusters": ["ewr"],
    }
    assert units(Kind.NAMESPACE, document) == {
        "/auth_policies/namespace_auth/a~1b": ["produce"],
        "/auth_policies/destination_auth/t/r": ["consume"],
        "/backlog_quota_map/message_age": {"limitTime": 1},
        "/bundles": {"numBundles": 1},
    }


def test_kinds_and_timestamps_are_read_from_the_store() -> None:
    paths = ["/admin/policies/acme", PATH, "/admin/partitioned-topics/acme/orders/persistent/a"]
    paths += ["/magnetar/routes/acme", "/admin/clusters/ewr"]
    assert [kind_of(path) for path in paths] == [Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.ROUTE, None]
    record = {"created": [1, 2, "ewr"], "edits": {TTL: [5, 3, 4, "jfk", [1, 2, "ewr"]]}}
    assert list(stamps(record)) == [Stamp(1, 2, "ewr"), Stamp(3, 4, "jfk")]
