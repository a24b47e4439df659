"""A list of topics encoded in parts equals protobuf's encoding of the response."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire import commands
from magnetar.wire.frame import FrameDecoder
from magnetar.wire.topic_list import encoded_topics, topic_list_response


@given(st.lists(st.lists(st.text(max_size=9), max_size=40), max_size=5), st.booleans(), st.booleans())
def test_it_reads_as_the_response_of_protobuf(parts: list[list[str]], filtered: bool, changed: bool) -> None:
    topics = [name for part in parts for name in part]
    options = {"filtered": filtered, "changed": changed}
    response = topic_list_response(
        request_id=7, encoded_topics=b"".join(map(encoded_topics, parts)), topics_hash="0a", **options
    )
    plain = commands.get_topics_of_namespace_response(request_id=7, topics=topics, topics_hash="0a", **options)
    assert FrameDecoder().feed(response) == FrameDecoder().feed(plain)
