"""Clusters with everything on: TLS on the only ports, certificates of clients, tokens, and default deny."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, ClassVar, Final

import jwt
import pulsar

from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.messages import connect
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SECRET: Final = b"a secret key of more than 32 bytes for this test"

ROOT: Final = "root"
"""The superuser, who makes the test's namespaces. Brokers and the pipeline are replicators, and nothing else."""

PIPELINE: Final = "pipeline"


def token(role: str) -> str:
    """Return a token of a role."""
    return jwt.encode({"sub": role}, SECRET, "HS256")


class SecureBroker(Broker):
    """A broker without plain ports."""

    def __init__(self, directory: Path, cluster: str, settings: Mapping[str, object]) -> None:
        """Choose ports; ``SecureClusters`` adds the settings of TLS."""
        super().__init__(directory, cluster, settings)
        self.settings |= {
            "brokerServicePort": "",
            "webServicePort": "",
            "brokerServicePortTls": self.binary_port,
            "webServicePortTls": self.web_port,
        }
        self.service_url = f"pulsar+ssl://{LOOPBACK}:{self.binary_port}"
        self.admin_url = f"https://{LOOPBACK}:{self.web_port}"

    def trust(self, context: ssl.SSLContext, token: str) -> None:
        """Use the admin API with a context and a token."""
        self.rest.close()
        self.rest = Rest(self.admin_url, context=context)
        self.rest.authorize(token)


class SecureClusters(LocalClusters):
    """Clusters of such brokers, and the files of their clients."""

    broker: ClassVar[type[Broker]] = SecureBroker

    def __init__(
        self, directory: Path, names: Sequence[str] = NAMES, settings: Mapping[str, object] | None = None
    ) -> None:
        """Issue certificates, and write the settings; nothing runs yet."""
        super().__init__(directory, names, settings)
        self.authority = Authority(directory / "certificates")
        self._issued = self.authority.issue("client", "client.example")
        self.conf = self.conf_of(PIPELINE)
        """A ``client.conf`` of the pipeline."""
        context = ssl.create_default_context(cafile=str(self.authority.trust))
        context.load_cert_chain(self._issued.certificate, self._issued.key)
        replicators = [f"{PIPELINE}=*", *(f"broker-{name}={name}" for name in names)]
        for name, broker in self.brokers.items():
            assert isinstance(broker, SecureBroker)
            broker.settings |= self._settings_of(name, ",".join(replicators))
            broker.trust(context, token(ROOT))

    def conf_of(self, role: str) -> Path:
        """Write a ``client.conf`` of a role, with its token, the certificate of clients, and the authority."""
        conf, held = self.directory / f"{role}.conf", self.directory / f"{role}.token"
        held.write_text(token(role))
        conf.write_text(
            f"authPlugin=token\nauthParams={held.as_uri()}\ntlsTrustCertsFilePath={self.authority.trust}\n"
            f"tlsCertificateFilePath={self._issued.certificate}\ntlsKeyFilePath={self._issued.key}\n"
        )
        return conf

    def client(self, name: str) -> pulsar.Client:
        """Return a client of the superuser."""
        if name not in self._clients:
            self._clients[name] = connect(
                self.members[name].service_url,
                authentication=pulsar.AuthenticationToken(token(ROOT)),
                tls_trust_certs_file_path=str(self.authority.trust),
                tls_certificate_file_path=str(self._issued.certificate),
                tls_private_key_file_path=str(self._issued.key),
                tls_validate_hostname=True,
            )
        return self._clients[name]

    def make_local_namespace(self, name: str, namespace: str) -> None:
        """Create ``tenant/namespace`` in one cluster, without replication, and the records of all clusters."""
        rest = self.rest(name)
        for other, member in self.members.items():
            record = {"serviceUrlTls": member.admin_url, "brokerServiceUrlTls": member.service_url}
            rest.ensure(f"clusters/{other}", record)
        rest.ensure(f"tenants/{namespace.partition('/')[0]}", {"allowedClusters": list(self.members)})
        rest.ensure(f"namespaces/{namespace}", {})

    def _settings_of(self, name: str, replicators: str) -> dict[str, object]:
        own = self.authority.issue(f"as-client-{name}", f"{name}.example")
        return {
            **self.authority.settings(f"broker-{name}"),
            "tlsTrustCertsFilePath": self.authority.trust,
            "tlsRequireTrustedClientCertOnConnect": "true",
            "authenticationEnabled": "true",
            "authenticationProviders": "token",
            "tokenSecretKey": f"data:;base64,{base64.b64encode(SECRET).decode()}",
            "authorizationEnabled": "true",
            "superUserRoles": ROOT,
            "replicatorRoles": replicators,
            "brokerClientTlsEnabled": "true",
            "brokerClientTrustCertsFilePath": self.authority.trust,
            "brokerClientCertificateFilePath": own.certificate,
            "brokerClientKeyFilePath": own.key,
            "brokerClientAuthenticationPlugin": "token",
            "brokerClientAuthenticationParameters": f"token:{token(f'broker-{name}')}",
        }
