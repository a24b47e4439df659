"""The table of Pulsar's keys."""

from __future__ import annotations

import pytest

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.loading import TRANSLATED
from magnetar.broker.settings.pulsar_keys import Effect, PulsarKey, pulsar_keys

SETTINGS = BrokerConfig.model_fields


def test_each_setting_of_the_table_is_one_and_each_other_key_has_a_reason() -> None:
    for key in [*pulsar_keys().by_name.values(), *pulsar_keys().prefixes]:
        if key.effect is Effect.SETTING:
            assert key.name in SETTINGS or key.name in TRANSLATED, key.name
        else:
            assert key.reason, key.name
        assert bool(key.fix) == (key.effect is Effect.DANGEROUS), key.name


def test_each_default_that_is_not_pulsars_has_a_reason_and_no_other() -> None:
    keys = pulsar_keys()
    common = {name: field.default for name, field in SETTINGS.items() if name in keys.by_name}
    empty = {name for name, default in common.items() if default in ("", None) and not keys.by_name[name].default}
    other = {name for name, default in common.items() if not _is_default(keys.by_name[name], default)} - empty
    assert other <= keys.differences.keys() <= other | empty


def _is_default(key: PulsarKey, default: object) -> bool:
    if default == key.default == "":
        return key.name not in pulsar_keys().differences
    return bool(key.default) and key.is_default(str(default))


@pytest.mark.parametrize(
    ("default", "value", "is_default"),
    [
        ("0.2", " 0.20", True),
        ("1", "1.0", True),
        ("a,b", "b, a", True),
        ("false", "False", True),
        ("x", "", True),
        ("", "x", False),
        ("a,b", "a", False),
        ("1", "2", False),
    ],
)
def test_values_are_compared_by_their_meaning(default: str, value: str, is_default: bool) -> None:
    assert PulsarKey("key", default, Effect.IGNORED).is_default(value) is is_default


def test_a_key_is_found_by_its_prefix() -> None:
    found = pulsar_keys().find("bookkeeper_opportunisticStriping")
    assert found is not None
    assert found.effect is Effect.NO_MEANING
    assert pulsar_keys().find("bookkeeperOpportunisticStriping") is None
