"""``magnetar profiles``: names for clusters, so that commands need no URLs."""

from __future__ import annotations

from typing import Annotated

import typer

from magnetar.cli.global_options import OutputForm, noun, profile_names
from magnetar.cli.output import Output, say, show_change, show_json, show_table
from magnetar.cli.profile_store import Profile, load_profiles, profiles_file, save_profiles
from magnetar.security.credentials import Credentials

app = noun("Names of clusters for --cluster, in a file of your configuration directory.")

Name = Annotated[str, typer.Argument(help="The profile's name.", autocompletion=profile_names)]


@app.command("list")
def list_profiles(output: OutputForm = Output.TEXT) -> None:
    """List the profiles; the current one is used by commands that name no cluster."""
    profiles = load_profiles()
    rows = [
        {"name": name, "current": name == profiles.current, **each.shown()} for name, each in profiles.by_name.items()
    ]
    if output is Output.JSON:
        show_json(rows)
        return
    heads = {
        "name": "profile",
        "current": "current",
        "adminUrl": "admin URL",
        "serviceUrl": "URL for clients",
        "authParams": "token",
        "tlsTrustCertsFilePath": "trusted certificates",
        "tlsCertificateFilePath": "certificate",
        "tlsKeyFilePath": "key",
    }
    fields = [field for field in heads if any(field in row for row in rows)]
    show_table({heads[field]: row.get(field) for field in fields} for row in rows)
    if not rows:
        say(f"there are no profiles in {profiles_file()}; add one with: magnetar profiles set NAME --admin-url URL")


@app.command("set")
def set_profile(
    name: Name,
    admin_url: Annotated[str, typer.Option("--admin-url", help="Admin URL of the cluster, http://host:port.")],
    service_url: Annotated[str | None, typer.Option(help="URL for clients, pulsar://host:port.")] = None,
    auth_params: Annotated[
        str,
        typer.Option(
            help="Token for an admin API that requires one, as file:///path (which is read for each request), "
            "env:VARIABLE, or token:TOKEN (which others can see in the list of processes)."
        ),
    ] = "",
    *,
    tls_trust_certs_file_path: Annotated[
        str, typer.Option(help="Certificates in PEM to trust instead of those of the system.")
    ] = "",
    tls_certificate_file_path: Annotated[str, typer.Option(help="Certificate of the client in PEM.")] = "",
    tls_key_file_path: Annotated[str, typer.Option(help="Private key of this certificate in PEM.")] = "",
    output: OutputForm = Output.TEXT,
) -> None:
    """Add or replace a profile. Its credentials are for the admin API, for example that of Apache Pulsar."""
    old = load_profiles()
    credentials = Credentials(
        auth_params=auth_params,
        tls_trust_certs_file_path=tls_trust_certs_file_path,
        tls_certificate_file_path=tls_certificate_file_path,
        tls_key_file_path=tls_key_file_path,
    )
    new = old.with_profile(name, Profile(admin_url, service_url, credentials))
    save_profiles(new)
    before, after = old.by_name.get(name), new.by_name[name]
    show_change(output, f"profile {name}", "urls", before and before.shown(), after.shown())


@app.command("use")
def use(name: Name, output: OutputForm = Output.TEXT) -> None:
    """Make a profile the current one."""
    old = load_profiles()
    save_profiles(old.using(name))
    show_change(output, "profiles", "current", old.current, name)


@app.command("remove")
def remove(name: Name, output: OutputForm = Output.TEXT) -> None:
    """Remove a profile; the cluster does not notice it."""
    old = load_profiles()
    save_profiles(old.without(name))
    show_change(output, f"profile {name}", "urls", old.by_name[name].shown(), None)
