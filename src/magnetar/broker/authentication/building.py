"""The providers that the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import ConfigurationError
from magnetar.broker.authentication.authentication import Authentication
from magnetar.broker.settings.peers import own_credentials
from magnetar.security.providers.basic import BasicProvider, read_users
from magnetar.security.providers.certificates import CertificateProvider
from magnetar.security.providers.issuers import CacheOptions, IssuerKeys
from magnetar.security.providers.keys import public_key, read_key, secret_key
from magnetar.security.providers.openid import OpenIdOptions, OpenIdProvider
from magnetar.security.providers.service import AuthenticationService
from magnetar.security.providers.tokens import TokenOptions, TokenProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.base.world import Clock
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.security.audit import AuditEvent
    from magnetar.security.providers.keys import VerificationKey
    from magnetar.security.providers.proof import Provider

_PACKAGE: Final = "org.apache.pulsar.broker.authentication."


def build_service(config: BrokerConfig) -> AuthenticationService | None:
    """Return the authentication of clients; None if it is off. Keys and users are read now.

    Raises ConfigurationError, which contains no secret, if a setting or a file is not usable.
    """
    own_credentials(config)
    if not config.authenticationEnabled:
        if config.authenticateMetricsEndpoint:
            message = "authenticateMetricsEndpoint has no effect\nhint: set authenticationEnabled, too"
            raise ConfigurationError(message)
        return None
    names = _names(config.authenticationProviders)
    proxies = frozenset(_names(config.proxyRoles))
    if not names:
        message = f"authenticationEnabled needs authenticationProviders\nhint: name some of {', '.join(_PROVIDERS)}"
        raise ConfigurationError(message)
    if config.anonymousUserRole in proxies:
        message = "anonymousUserRole must not be among the proxyRoles: each client could act for every role"
        raise ConfigurationError(message)
    providers = [_builder(name)(config) for name in names]
    return AuthenticationService(providers, config.anonymousUserRole, proxies)


def build_authentication(
    config: BrokerConfig, clock: Clock, limit_hits: LimitHits, record: Callable[[AuditEvent], None]
) -> Authentication | None:
    """Return the authentication of clients, which must be closed; None if it is off. Raises as ``build_service``."""
    service = build_service(config)
    return None if service is None else Authentication(service, clock, limit_hits, record)


def check_authentication(config: BrokerConfig) -> None:
    """Check keys, users and the other settings of authentication; raises as ``build_service``."""
    service = build_service(config)
    if service is not None:
        service.close()


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _builder(name: str) -> Callable[[BrokerConfig], Provider]:
    short = name.removeprefix(_PACKAGE).removeprefix("oidc.").removeprefix("AuthenticationProvider").lower()
    found = _PROVIDERS.get(short)
    if found is None:
        message = (
            f"authenticationProviders: {name} is not supported\n"
            f"hint: the supported ones are {', '.join(_PROVIDERS)}, or the names of their classes in Pulsar"
        )
        raise ConfigurationError(message)
    return found


def _token(config: BrokerConfig) -> Provider:
    if config.tokenAudienceClaim and not config.tokenAudience:
        message = "tokenAudienceClaim needs tokenAudience\nhint: set the audience that this broker is"
        raise ConfigurationError(message)
    return TokenProvider(
        TokenOptions(
            _key(config),
            auth_claim=config.tokenAuthClaim or "sub",
            audience_claim=config.tokenAudienceClaim,
            audience=config.tokenAudience,
            clock_skew_s=config.tokenAllowedClockSkewSeconds,
        )
    )


def _key(config: BrokerConfig) -> VerificationKey:
    if bool(config.tokenSecretKey) == bool(config.tokenPublicKey):
        found = "both" if config.tokenSecretKey else "neither"
        message = f"tokens need one of tokenSecretKey and tokenPublicKey, and the configuration has {found}"
        raise ConfigurationError(message)
    if config.tokenSecretKey:
        return secret_key(read_key(config.tokenSecretKey, "tokenSecretKey"), "tokenSecretKey")
    data = read_key(config.tokenPublicKey, "tokenPublicKey")
    return public_key(data, config.tokenPublicAlg, "tokenPublicKey")


def _basic(config: BrokerConfig) -> Provider:
    if not config.basicAuthConf:
        message = "the provider basic needs basicAuthConf\nhint: write the path of a file of `htpasswd -B`"
        raise ConfigurationError(message)
    return BasicProvider(read_users(config.basicAuthConf))


def _tls(_: BrokerConfig) -> Provider:
    return CertificateProvider()


def _openid(config: BrokerConfig) -> Provider:
    # The client for HTTP is heavy, and only this provider needs it.
    from magnetar.security.providers.fetching import HttpFetch, trusting  # noqa: PLC0415

    issuers, audiences = _names(config.openIDAllowedTokenIssuers), _names(config.openIDAllowedAudiences)
    if not issuers or not audiences:
        message = "the provider openid needs openIDAllowedTokenIssuers and openIDAllowedAudiences"
        raise ConfigurationError(message)
    plain = [issuer for issuer in issuers if not issuer.lower().startswith("https://")]
    if plain and config.openIDRequireIssuersUseHttps:
        message = f"openIDAllowedTokenIssuers: {plain[0]} is not a URL with https"
        raise ConfigurationError(message)
    fetch = HttpFetch(
        trusting(config.openIDTokenIssuerTrustCertsFilePath),
        connect_timeout_s=config.openIDHttpConnectionTimeoutMillis / 1000,
        read_timeout_s=config.openIDHttpReadTimeoutMillis / 1000,
    )
    keys = IssuerKeys(
        fetch,
        CacheOptions(
            size=config.openIDCacheSize,
            refresh_after_s=config.openIDCacheRefreshAfterWriteSeconds,
            expire_after_s=config.openIDCacheExpirationSeconds,
            unknown_key_refresh_s=config.openIDKeyIdCacheMissRefreshSeconds,
            requires_https=config.openIDRequireIssuersUseHttps,
        ),
    )
    return OpenIdProvider(
        OpenIdOptions(
            frozenset(issuers),
            frozenset(audiences),
            role_claim=config.openIDRoleClaim or "sub",
            leeway_s=config.openIDAcceptedTimeLeewaySeconds,
        ),
        keys,
    )


_PROVIDERS: Final[Mapping[str, Callable[[BrokerConfig], Provider]]] = {
    "token": _token,
    "basic": _basic,
    "tls": _tls,
    "openid": _openid,
}
