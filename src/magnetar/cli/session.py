"""The part that all commands for a cluster share: the client, the output, and errors with their hints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError, InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.cli.consent import require_consent
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import AdminUrl, OutputForm, ProfileName
from magnetar.cli.hints import refusal_hint
from magnetar.cli.output import Output, note, say, show_change, show_fields, show_json, show_lines, show_table
from magnetar.cli.target import Target, choose

Verb = TypeVar("Verb", bound=Callable[..., None])
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Session:
    """The client and the output format of one command."""

    client: AdminClient
    output: Output
    target: Target

    @property
    def is_json(self) -> bool:
        """Whether the output format is JSON."""
        return self.output is Output.JSON

    def names(self, found: Iterable[object]) -> None:
        """Print a list of names."""
        names = list(map(str, found))
        if self.output is Output.JSON:
            show_json(names)
        else:
            show_lines(names)

    def fields(self, found: Mapping[str, Any] | None) -> None:
        """Print an object; None means that it is not set."""
        if self.output is Output.JSON:
            show_json(found)
        elif found is None:
            say("not set")
        else:
            show_fields(found)

    def value(self, found: Any) -> None:  # noqa: ANN401 - any JSON value
        """Print an object or a single value; None means that it is not set."""
        if self.output is Output.JSON or found is None or isinstance(found, dict):
            self.fields(found)
        else:
            show_lines([found])

    def rows(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Print objects with equal fields as a table."""
        if self.output is Output.JSON:
            show_json(list(found))
        else:
            show_table(found)

    def note(self, text: str) -> None:
        """Print a message beside the data."""
        note(self.output, text)

    def created(self, kind: str, name: object, after: object) -> None:
        """Report a new object."""
        self.done(f"created {kind} {name}", name, kind, None, after)

    def deleted(self, kind: str, name: object, before: object) -> None:
        """Report the deletion of an object."""
        self.done(f"deleted {kind} {name}", name, kind, before, None)

    def changed(self, subject: object, field: str, before: object, after: object) -> None:
        """Report the values of an object's ``field`` before and after a change; None: it is not set."""
        show_change(self.output, str(subject), field, before, after)

    def require_consent(self, action: str, effects: Iterable[str] = (), *, option: str = "--force") -> None:
        """Ask for consent to an action in this cluster; raises FailedError without it."""
        require_consent(f"{action}, in {self.target}", list(effects), option=option)

    def done(self, text: str, subject: object, field: str, before: object, after: object) -> None:
        """Report an action as ``text``, or by the state of the subject's ``field`` before and after it."""
        if self.is_json:
            show_change(self.output, str(subject), field, before, after)
        else:
            say(text)


def command(app: typer.Typer, name: str, **read_as: object) -> Callable[[Verb], Verb]:
    """Register a function of a session and further parameters as the verb ``name`` of ``app``.

    ``read_as`` replaces the annotations of parameters that nouns read differently.
    """
    return _registration(app, name, read_as, [])


def change(app: typer.Typer, name: str, **read_as: object) -> Callable[[Verb], Verb]:
    """Register a verb that changes synchronized metadata: as ``command``, with the option ``--local``."""
    return _registration(app, name, read_as, [_keyword("local", Local, default=False)])


def _registration(
    app: typer.Typer, name: str, read_as: Mapping[str, object], further: Sequence[inspect.Parameter]
) -> Callable[[Verb], Verb]:

    def register(function: Verb) -> Verb:
        def run(
            context: typer.Context,
            admin_url: str | None,
            profile: str | None,
            output: Output,
            local: bool = False,
            **arguments: Any,  # noqa: ANN401 - as the verb declares
        ) -> None:
            target = choose(context, admin_url, profile)
            with AdminClient(target.admin_url, credentials=target.credentials) as client, _failures(target, arguments):
                if local:
                    client.keep_changes_local()
                function(Session(client, output, target), **arguments)

        # typer reads a command's parameters from its signature.
        hints = get_type_hints(function, include_extras=True) | dict(read_as)
        session, *own = inspect.signature(function).parameters.values()
        shared = [
            _keyword("context", typer.Context),
            _keyword("admin_url", AdminUrl, None),
            _keyword("profile", ProfileName, None),
            _keyword("output", OutputForm, Output.TEXT),
        ]
        parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # typer and inspect look for it
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters] + [*further, *shared]
        )
        run.__annotations__ = {name: hint for name, hint in hints.items() if name != session.name}
        app.command(name, help=inspect.getdoc(function))(run)
        return function

    return register


Local = Annotated[
    bool, typer.Option("--local", help="Change this cluster only, although the metadata are synchronized with others.")
]


def _keyword(name: str, annotation: object, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


@contextmanager
def _failures(target: Target, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Add the URL and a hint to errors of the cluster."""
    try:
        yield
    except ClusterUnreachableError as error:
        hint = (
            "start a broker with: magnetar standalone; or name another cluster: --cluster NAME "
            "(magnetar profiles list shows the names) or --admin-url http://host:port"
        )
        raise FailedError(Failure(ExitCode.UNREACHABLE, str(error), hint, target.admin_url)) from error
    except AdminError as error:
        hint = refusal_hint(error, target, arguments)
        failure = Failure(ExitCode.FAILED, str(error), hint, target.admin_url, error.status.value)
        raise FailedError(failure) from error


def topic(text: str) -> TopicName:
    """Read a topic argument."""
    return _name(TopicName.parse, text)


def namespace(text: str) -> NamespaceName:
    """Read a namespace argument."""
    return _name(NamespaceName.parse, text)


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _name(parse: Callable[[str], Parsed], text: str) -> Parsed:
    try:
        return parse(text)
    except InvalidTopicNameError as error:
        raise typer.BadParameter(str(error)) from None


Topic = Annotated[TopicName, typer.Argument(parser=topic, metavar="TOPIC", help="persistent://tenant/namespace/topic")]
Namespace = Annotated[NamespaceName, typer.Argument(parser=namespace, metavar="NAMESPACE", help="tenant/namespace")]
