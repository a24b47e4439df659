"""Settings of authentication."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

SECRETS: Final = frozenset({"tokenSecretKey", "basicAuthConf", "brokerClientAuthenticationParameters"})
"""Settings whose values are shown nowhere."""

HIDDEN: Final = "*****"
"""Shown instead of the value of a secret."""


class AuthenticationSettings(BaseModel):
    """Authentication of clients, and of this broker as a client."""

    authenticationEnabled: bool = Field(
        default=False,
        description="Whether clients must prove a role. Without authorization, each of them may then do everything.",
    )
    authenticationProviders: str = Field(
        "",
        description="Accepted methods separated by commas: Pulsar's class names, or `token`, `openid`, `basic`, `tls`.",
    )
    authenticationRefreshCheckSeconds: float = Field(
        60,
        gt=0,
        description="Seconds within which a client must renew expired credentials on its connection, after the broker "
        "has asked for it.",
    )
    authenticateOriginalAuthData: bool = Field(
        default=False,
        description="Whether a proxy must pass on the credentials of its client; otherwise its word is enough.",
    )
    authenticateMetricsEndpoint: bool = Field(
        default=False, description="Whether `/metrics` requires authentication, too; needs authenticationEnabled."
    )
    anonymousUserRole: str = Field(
        "", description="Role of clients without credentials of an accepted method. Empty: they are refused."
    )
    proxyRoles: str = Field(
        "",
        description="Roles of proxies, separated by commas. They act for the original principal that they must name. "
        "Other roles must not name one.",
    )
    tokenSecretKey: str = Field(
        "",
        repr=False,
        description="Secret key that signs tokens (HS256, HS384, HS512), at least 32 bytes: `file:///path` of its "
        "bytes, `data:;base64,KEY`, or the key in base64.",
    )
    tokenPublicKey: str = Field(
        "", description="Public key that verifies tokens, instead of a secret key, in the same forms: DER or PEM."
    )
    tokenPublicAlg: str = Field(
        "RS256", description="Algorithm of the public key. A key of RSA verifies RS and PS, one of a curve its own ES."
    )
    tokenAuthClaim: str = Field("", description="Claim of a token that has the role. Empty: `sub`.")
    tokenAudienceClaim: str = Field(
        "", description="Claim of a token with audiences, one of which must be tokenAudience. Empty: not checked."
    )
    tokenAudience: str = Field("", description="Audience that this broker is.")
    tokenAllowedClockSkewSeconds: float = Field(
        0, ge=0, description="Seconds for which tokens are accepted before their beginning and after their end."
    )
    basicAuthConf: str = Field(
        "",
        repr=False,
        description="File of `htpasswd` with users and hashes of passwords (bcrypt, MD5, SHA or crypt): a path, "
        "`file:///path`, `data:;base64,CONTENT`, or its content in base64.",
    )
    openIDAllowedTokenIssuers: str = Field(
        "",
        description="URLs of the OpenID Connect issuers whose tokens are accepted, separated by commas, as tokens "
        "state them (`iss`). The broker requests their keys.",
    )
    openIDAllowedAudiences: str = Field(
        "", description="Audiences of tokens of issuers, separated by commas; a token must have one of them."
    )
    openIDRoleClaim: str = Field("", description="Claim of a token of an issuer that has the role. Empty: `sub`.")
    openIDAcceptedTimeLeewaySeconds: float = Field(
        0, ge=0, description="Seconds by which the clocks of issuers may differ from that of the broker."
    )
    openIDTokenIssuerTrustCertsFilePath: str = Field(
        "", description="Certificates of authorities in PEM for issuers. Empty: those of the system."
    )
    openIDRequireIssuersUseHttps: bool = Field(
        default=True, description="Whether issuers and their keys must have URLs with https."
    )
    openIDCacheSize: int = Field(5, gt=0, description="Maximum number of issuers whose keys are kept.")
    openIDCacheRefreshAfterWriteSeconds: float = Field(
        64_800, gt=0, description="Age of the keys of an issuer at which they are requested again, in seconds."
    )
    openIDCacheExpirationSeconds: float = Field(
        86_400, gt=0, description="Age of the keys of an issuer at which they are no longer used, in seconds."
    )
    openIDKeyIdCacheMissRefreshSeconds: float = Field(
        300,
        gt=0,
        description="Age of the keys of an issuer, in seconds, at which a token with an unknown key lets them be "
        "requested again.",
    )
    openIDHttpConnectionTimeoutMillis: int = Field(
        10_000, gt=0, description="Milliseconds within which an issuer must accept a connection."
    )
    openIDHttpReadTimeoutMillis: int = Field(
        10_000, gt=0, description="Milliseconds within which an issuer must answer."
    )
    brokerClientAuthenticationPlugin: str = Field(
        "",
        description="Method with which this broker proves its own role to other brokers and to itself: the class name "
        "of Pulsar's client, or `token`, `basic`, `tls`.",
    )
    brokerClientAuthenticationParameters: str = Field(
        "",
        repr=False,
        description="Parameters of the method, for example `file:///path/of/a/token` or `token:TOKEN`. A file is read "
        "again for each connection.",
    )
