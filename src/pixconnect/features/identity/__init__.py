"""Identity of callers: clients, tokens, certificates, signing keys, operators and their sessions."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    verbs=(
        Verb(*("operator", "client", "features.identity.cli.client:app"), "Manage holders' OAuth clients."),
        Verb(
            *("operator", "operator", "features.identity.cli.operator:app"),
            "Operators' access to the console and to holders' resources.",
        ),
        Verb(
            *("operator", "signing-key", "features.identity.cli.signing_key:app"),
            "Manage the keys that sign tokens, QR codes and webhooks.",
        ),
        Verb(
            *("operator", "secrets", "features.identity.cli.signing_key:secrets_app"),
            "Reseal stored secrets after a change of the secret key.",
        ),
    )
)
