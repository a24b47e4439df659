"""Java's format of properties; the expected values are those of ``java.util.Properties``, trimmed as Pulsar does."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.java_properties import parse_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb = 2 \n\tc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n  ! b=2\nc=3#4", {"c": "3#4"}),
        ("a=\nb", {"a": "", "b": ""}),
        ("a : 1\nb 2\nc  3 4", {"a": "1", "b": "2", "c": "3 4"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        (r"a=\t1\u0041\n2\q" + "\n", {"a": "1A\n2q"}),
        (r"a\ b\=c=1", {"a b=c": "1"}),
        ("a=1,\\\n   2,\\\n   3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("# a \\\nb=1", {"b": "1"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_values_are_read_as_java_reads_them(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text, "broker.conf") == values


def test_a_malformed_escape_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigurationError, match=r"broker\.conf:2: \\u must be followed"):
        parse_properties("a=1\nb=\\u12g4", "broker.conf")
