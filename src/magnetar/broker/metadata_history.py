"""Past edits of metadata for the admin API: shows and undoes them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Literal

from magnetar.admin.models.metadata_sync import EditedField, HistoryEdit, UndoneEdit
from magnetar.admin.models.model import iso_time
from magnetar.base.errors import AdminError, BadVersionError, InvalidTopicNameError
from magnetar.metadata.awaiting import Commit
from magnetar.metadata.store import ABSENT, Put
from magnetar.metasync.documents import MODELS
from magnetar.metasync.local.marks import WHOLE
from magnetar.metasync.places import resources_named
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.undo import OverriddenError, UndoError, undone

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from magnetar.metasync.history import Change, PastEdit
    from magnetar.metasync.local.decisions import Holding
    from magnetar.metasync.places import Resource
    from magnetar.metasync.store import SynchronizedStore


class MetadataHistory:
    """The past edits of all resources."""

    def __init__(self, store: SynchronizedStore) -> None:
        """Show and undo the edits in ``store``."""
        self._store = store

    def of(self, name: str) -> Generator[None, None, list[HistoryEdit]]:
        """See MetadataSync."""
        found: list[tuple[Timestamp, HistoryEdit]] = []
        for resource in _resources(name):
            edits: list[PastEdit] = []
            for edit in self._store.history.of(resource):
                edits.append(edit)
                yield
            states = _States(self._store.holdings.held(resource), edits)
            for edit in edits:
                found.append((edit.timestamp, _model(resource, edit, states)))
                yield
        if not found:
            raise AdminError(HTTPStatus.NOT_FOUND, f"no edit of {name} is known")
        return [edit for _, edit in sorted(found, key=lambda each: each[0])]

    async def undo(self, name: str, edit: str | None, *, force: bool) -> UndoneEdit:
        """See MetadataSync."""
        resource, past = self._chosen(name, edit)
        stored = self._store.get(resource.path)
        document = None if stored is None else MODELS[resource.kind].from_json(stored.value).to_json()
        try:
            value = undone(resource, past, self._store.record(resource), document, force=force)
        except OverriddenError as error:
            raise AdminError(HTTPStatus.CONFLICT, str(error)) from error
        except UndoError as error:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error)) from error
        parent = resource.parent
        if parent is not None and self._store.get(parent.path) is None:
            message = f"{parent.name} does not exist: restore it before {resource.name}"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
        put = Put(
            resource.path,
            MODELS[resource.kind].model_validate(value).to_bytes(),
            ABSENT if stored is None else stored.version,
        )
        try:
            await Commit(self._store, [put])
        except BadVersionError as error:
            raise AdminError(HTTPStatus.CONFLICT, "the resource was changed meanwhile: repeat the request") from error
        restored = {_field(unit): each.before for unit, each in past.changes.items() if each.lost_to is None}
        return UndoneEdit(
            edit=str(past.timestamp), resource_type=resource.kind.value, resource=resource.name, restored=restored
        )

    def _chosen(self, name: str, edit: str | None) -> tuple[Resource, PastEdit]:
        resources, history = _resources(name), self._store.history
        if edit is None:
            newest = [(resource, past) for resource in resources if (past := history.newest(resource)) is not None]
            if not newest:
                raise AdminError(HTTPStatus.NOT_FOUND, f"no edit of {name} is known")
            return max(newest, key=lambda each: each[1].timestamp)
        try:
            timestamp = Timestamp.parse(edit)
        except ValueError as error:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error)) from error
        for resource in resources:
            past = history.find(resource, timestamp)
            if past is not None:
                return resource, past
        raise AdminError(HTTPStatus.NOT_FOUND, f"no edit {edit} of {name} is kept")


def _resources(name: str) -> list[Resource]:
    try:
        return resources_named(name)
    except InvalidTopicNameError as error:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error)) from error


def _model(resource: Resource, edit: PastEdit, states: _States) -> HistoryEdit:
    change: Literal["Created", "Modified", "Deleted"] = "Modified"
    if edit.is_creation or edit.is_deletion:
        change = "Created" if edit.is_creation else "Deleted"
    return HistoryEdit(
        edit=str(edit.timestamp),
        resource_type=resource.kind.value,
        change=change,
        cluster=edit.timestamp.cluster,
        edited_at=iso_time(edit.timestamp.time_ms),
        arrived_at=iso_time(edit.arrived_ms),
        is_complete=edit.is_complete,
        is_local=edit.is_local,
        fields=[
            EditedField(
                field=_field(unit),
                before=each.before,
                after=each.value,
                state=states.of(edit, unit, each),
                lost_to=None if each.lost_to is None else str(each.lost_to),
            )
            for unit, each in sorted(edit.changes.items())
        ],
    )


class _States:
    """Which edits of a resource count."""

    def __init__(self, held: Holding, edits: Iterable[PastEdit]) -> None:
        self._held = held
        self._local: dict[str, PastEdit] = {}
        """By unit, the newest edit for this cluster only."""
        for edit in edits:
            if edit.is_local:
                self._local |= dict.fromkeys(edit.changes, edit) | {WHOLE: edit}

    def of(self, edit: PastEdit, unit: str, change: Change) -> Literal["current", "replaced", "lost"]:
        record = self._held.record
        if change.lost_to is not None:
            return "lost"
        if edit.is_local:
            is_current = self._is_local(unit) and self._local[WHOLE if edit.is_deletion else unit] is edit
        elif edit.is_deletion:
            is_current = record.deleted == edit.timestamp and not record.exists
        else:
            newest = record.edits.get(unit)
            is_current = newest is not None and newest.timestamp == edit.timestamp
        return "current" if is_current else "replaced"

    def _is_local(self, unit: str) -> bool:
        return self._held.is_local or unit in self._held.marks


def _field(unit: str) -> str:
    return unit.removeprefix("/")
