"""``/admin/v2/namespaces``: the division of namespaces into bundles. One broker serves all bundles of its cluster."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pydantic import TypeAdapter

from magnetar.admin.exchange import (
    AdminRoute,
    Context,
    body,
    flag,
    namespace_name,
    path_text,
    query_text,
    query_texts,
    route,
)
from magnetar.admin.models.bundles import Bundle, all_bundles
from magnetar.base.errors import AdminError
from magnetar.metadata.policies import NAMESPACE_BUNDLES_MAX, BundlesData

if TYPE_CHECKING:
    from starlette.requests import Request

_POSITIONS: TypeAdapter[list[int] | None] = TypeAdapter(list[int] | None)

_HALVES, _AT_POSITIONS = "range_equally_divide", "specified_positions_divide"
_ALGORITHMS = (_HALVES, "topic_count_equally_divide", _AT_POSITIONS, "flow_or_qps_equally_divide")
_LARGEST = ("LARGEST", "HOT")
"""Names of the bundle with the most topics."""


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for bundles."""
    handlers = _Bundles(context)
    one = "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}"
    return [
        route("PUT", f"{one}/split", handlers.split, takes=_POSITIONS, query=["splitAlgorithmName", "unload"]),
        route("GET", f"{one}/topicHashPositions", handlers.hash_positions, query=["topics"], gives=dict[str, Any]),
        route("DELETE", one, handlers.delete),
    ]


class _Bundles:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._topics = context.service.topics

    async def split(self, request: Request) -> None:
        """Divide a bundle where the algorithm says; its topics stay loaded unless ``unload`` is given."""
        bundle = await self._bundle(request)
        algorithm, positions = await _algorithm(request)
        hashes = sorted((await self._hashes(request, bundle)).values())
        if algorithm == _HALVES:
            cuts = [(bundle.first + bundle.end) // 2]
        elif algorithm == _AT_POSITIONS:
            cuts = positions if len(hashes) > 1 else []
        else:
            cuts = _middle(hashes)
        namespace = namespace_name(request)
        bounds = {int(bound, 16) for bound in self._context.policies(namespace).bundles.boundaries}
        bounds |= {cut for cut in cuts if bundle.first < cut < bundle.end}
        if len(bounds) > NAMESPACE_BUNDLES_MAX + 1:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"A namespace has at most {NAMESPACE_BUNDLES_MAX} bundles")
        changed = {"bundles": BundlesData.between(sorted(bounds))}
        namespaces = self._context.resources.namespaces
        await namespaces.update(namespace, lambda policies: policies.model_copy(update=changed))
        if flag(request, "unload"):
            async for topic in self._context.in_turn(tuple(self._topics.each(namespace))):
                if bundle.contains(topic) and self._topics.is_loaded(topic):
                    await self._topics.unload(topic)

    async def hash_positions(self, request: Request) -> dict[str, Any]:
        """Return the hashes of the topics of a bundle, or of those that are named."""
        bundle = await self._bundle(request)
        named = query_texts(request, "topics")
        hashes = await self._hashes(request, bundle)
        shown = {topic: place for topic, place in hashes.items() if not named or topic in named}
        return {"namespace": str(namespace_name(request)), "bundle": str(bundle), "topicHashPositions": shown}

    async def delete(self, request: Request) -> None:
        """Accept an empty bundle: its hashes remain served, as in Pulsar."""
        if await self._hashes(request, await self._bundle(request)):
            raise AdminError(HTTPStatus.CONFLICT, "Cannot delete non empty bundle")

    async def _bundle(self, request: Request) -> Bundle:
        namespace, text = namespace_name(request), path_text(request, "bundle")
        data = self._context.policies(namespace).bundles
        if text not in _LARGEST:
            return Bundle.parse(text, namespace, data)
        sizes = [(len(await self._hashes(request, bundle)), bundle) for bundle in all_bundles(data)]
        return max(sizes, key=lambda each: each[0])[1]

    async def _hashes(self, request: Request, bundle: Bundle) -> dict[str, int]:
        """Return the hashes of the topics of a bundle."""
        found: dict[str, int] = {}
        async for topic in self._context.in_turn(tuple(self._topics.each(namespace_name(request)))):
            if bundle.contains(topic):
                found[str(topic)] = crc32(str(topic).encode())
        return found


async def _algorithm(request: Request) -> tuple[str, list[int]]:
    """Return the name of the algorithm, and the given positions; refuses with 412."""
    algorithm = query_text(request, "splitAlgorithmName") or _HALVES
    if algorithm not in _ALGORITHMS:
        message = "Unsupported namespace bundle split algorithm, supported algorithms are "
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"{message}[{', '.join(_ALGORITHMS)}]")
    positions = await body(request, _POSITIONS) or []
    if algorithm == _AT_POSITIONS and not positions:
        message = f"With {_AT_POSITIONS} split algorithm, splitBoundaries must not be empty"
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
    return algorithm, positions


def _middle(hashes: list[int]) -> list[int]:
    """Return the hash that divides the topics into halves; nothing for fewer than two topics."""
    half = len(hashes) // 2
    return [(hashes[half - 1] + hashes[half]) // 2] if half else []
