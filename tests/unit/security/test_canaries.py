"""Canaries in objects with secrets: no form of these objects that a log or a traceback could contain shows them."""

from __future__ import annotations

import pytest

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.sections.authentication import SECRETS
from magnetar.cli.profile_store import Profile
from magnetar.lookup.options import LookupOptions
from magnetar.security.authentication import Basic, Token, authentication
from magnetar.security.client_conf import parse_client_conf
from magnetar.security.credentials import Credentials
from magnetar.security.providers.keys import secret_key
from magnetar.security.providers.proof import Proof
from magnetar.security.providers.service import RequestCredentials
from magnetar.security.providers.tokens import TokenOptions

CANARY = "canary-of-more-than-32-bytes-in-all"
CREDENTIALS = Credentials(auth_plugin="token", auth_params=f"token:{CANARY}")


@pytest.mark.parametrize(
    "holder",
    [
        BrokerConfig.model_validate(dict.fromkeys(SECRETS, CANARY)),
        CREDENTIALS,
        Profile("http://ewr", credentials=CREDENTIALS),
        LookupOptions(broker_urls=(), data_directory=None, credentials=CREDENTIALS),  # type: ignore[arg-type]
        parse_client_conf(f"authPlugin=token\nauthParams=token:{CANARY}\n", "client.conf"),
        Token(CANARY),
        Basic("alice", CANARY),
        authentication("basic", f"userId:alice,password:{CANARY}"),
        Proof("token", CANARY.encode()),
        RequestCredentials(authorization=f"Bearer {CANARY}"),
        secret_key(CANARY.encode(), "tokenSecretKey"),
        TokenOptions(secret_key(CANARY.encode(), "tokenSecretKey")),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_objects_with_secrets_do_not_show_them(holder: object) -> None:
    assert CANARY not in f"{holder!r} {holder}"
