"""``magnetar lookup``: run an instance of the lookup service."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.base.logs.log_limit import LogLimit
from magnetar.cli.broker_log import configure_log
from magnetar.wire.listeners import BINARY, BINARY_TLS, parse_endpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.lookup.options import LookupOptions
    from magnetar.wire.listeners import Endpoint

app = typer.Typer()

BindAddress = Annotated[
    list[str] | None,
    typer.Option(
        "--bind-address",
        metavar="NAME:URL",
        help="Further address to listen on, with a listener: name:pulsar://host:port, or pulsar+ssl. Clients that "
        "connect there get the addresses of this listener (advertisedListeners of the brokers). Repeatable.",
    ),
]

_URL_SCHEMES = ("http://", "https://")


@app.command()
def lookup(
    *,
    broker_url: Annotated[
        list[str],
        typer.Option(
            "--broker-url",
            metavar="URL",
            help="Admin URL of a broker that knows the routes, http://host:port. Repeatable: name one of each cluster.",
        ),
    ],
    data: Annotated[Path, typer.Option(help="Directory in which the newest routes are kept.")] = Path("lookup"),
    default_cluster: Annotated[
        str | None, typer.Option(help="Cluster of topics without a route; default: their clients are refused.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address on which it listens.")] = "0.0.0.0",  # noqa: S104 - as brokers
    port: Annotated[int, typer.Option(help="Port of the binary protocol; 0: the system chooses it.")] = 6650,
    web_port: Annotated[int, typer.Option(help="Port of HTTP; 0: the system chooses it.")] = 8080,
    tls_port: Annotated[
        int | None, typer.Option(help="Port of the binary protocol with TLS; 0: the system chooses it.")
    ] = None,
    bind_address: BindAddress = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="Certificate for ports with TLS, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, in PEM.")] = None,
    client_conf: Annotated[
        str, typer.Option(help="A client.conf with credentials for the brokers, and with trusted certificates.")
    ] = "",
    connections_max: Annotated[int, typer.Option(min=1, help="Maximum number of connections of clients.")] = 10_000,
    questions_max: Annotated[
        int, typer.Option(min=1, help="Maximum number of requests that wait for an answer of a cluster.")
    ] = 10_000,
    questions_of_connection_max: Annotated[int, typer.Option(min=1, help="The same of one connection.")] = 5_000,
    answers_max: Annotated[int, typer.Option(min=1, help="Maximum number of answers that are kept.")] = 100_000,
    answer_validity: Annotated[
        float, typer.Option(min=0, help="Seconds for which an answer is given to further clients.")
    ] = 2.0,
    answer_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds within which a cluster must answer.")] = 10.0,
) -> None:
    """Send clients to the cluster of their tenant, namespace or topic, until SIGINT or SIGTERM.

    Clients use pulsar://host:port of any instance as their service URL. The service gets the routes from brokers
    (magnetar routes), and keeps them on disk, so that it also starts while all brokers are away. It has no other state:
    run any number of instances.
    """
    from magnetar.lookup.options import LookupOptions  # noqa: PLC0415 - needed by this command only
    from magnetar.security.client_conf import credentials_in  # noqa: PLC0415

    bound = _bound(bind_address or ())
    has_tls = tls_port is not None or any(each.scheme == BINARY_TLS for each in bound)
    _check(broker_url, has_tls=has_tls, certificate=(tls_certificate, tls_key))
    options = LookupOptions(
        broker_urls=tuple(broker_url),
        data_directory=data,
        default_cluster=default_cluster,
        host=host,
        port=port,
        web_port=web_port,
        tls_port=tls_port,
        bind_addresses=bound,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        connections_max=connections_max,
        questions_max=questions_max,
        questions_of_connection_max=questions_of_connection_max,
        answers_max=answers_max,
        answer_validity_s=answer_validity,
        answer_timeout_s=answer_timeout,
        credentials=credentials_in(client_conf),
    )
    _run(options)


def _bound(texts: Sequence[str]) -> tuple[Endpoint, ...]:
    """Return the values of --bind-address; raises ConfigurationError for a wrong one."""
    try:
        return tuple(each for text in texts for each in parse_endpoints(text, (BINARY, BINARY_TLS), port_min=0))
    except ValueError as error:
        message = f"--bind-address {error}"
        raise ConfigurationError(message) from error


def _check(broker_urls: Sequence[str], *, has_tls: bool, certificate: Sequence[Path | None]) -> None:
    """Raise ConfigurationError for a URL that is none, and unless all options for TLS or none of them are given."""
    for url in broker_urls:
        if not url.startswith(_URL_SCHEMES):
            message = f"--broker-url {url} is no admin URL\nhint: it has the form http://host:port"
            raise ConfigurationError(message)
    if any((each is not None) != has_tls for each in certificate):
        message = (
            "--tls-certificate and --tls-key must be given together with a port with TLS (--tls-port, --bind-address)"
        )
        raise ConfigurationError(message)


def _run(options: LookupOptions) -> None:
    import uvloop  # noqa: PLC0415 - heavy, and needed by this command only

    from magnetar.broker.settings.sections.log import LogSettings  # noqa: PLC0415
    from magnetar.lookup.service import LookupService  # noqa: PLC0415

    configure_log(LogSettings(), LogLimit(time.monotonic))
    uvloop.run(LookupService(options).run())
