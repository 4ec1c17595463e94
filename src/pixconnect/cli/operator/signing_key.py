"""``pixconnect signing-key``: the keys that sign tokens, QR codes and webhooks."""

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.output import Json
from pixconnect.domain.identity.signing import SigningKey
from pixconnect.usecases.identity import signing_key as signing_key_usecases

app = App(name="signing-key", help="Manage the keys that sign tokens, QR codes and webhooks.")


@app.command
def rotate(*, json: Json = False) -> None:
    """Make a new signing key: published at once, it signs a minute later; the old one stays published."""
    output.show(_shown(operating.run(signing_key_usecases.rotate)), as_json=json)


# One key in 64 has a name that begins with a hyphen.
Kid = Annotated[str, Parameter(allow_leading_hyphen=True)]


@app.command
def revoke(kid: Kid, *, json: Json = False) -> None:
    """Revoke a key; prints the key that signs now. When it returns, no process takes the old one any more.

    Tokens that it signed are refused, and it is published no more. If it was the one that signs, a new key does at once.

    Args:
        kid: The key's name, as in `signing-key list` and in the header of its signatures.
    """
    # We ask no question first: an operator who revokes a key is in a hurry, and a new key signs at once.
    current = operating.run(signing_key_usecases.revoke, kid=kid)
    output.show({"revoked": kid, **_shown(current)}, as_json=json)
    operating.wait_until_in_force()


@app.command(name="renew-authority")
def renew_authority(*, json: Json = False) -> None:
    """Make a new certificate authority, and a new signing key that it certifies.

    The key is published at once, and signs a minute later.
    """
    # The first step where the old secret key is lost for good: it needs nothing that was sealed.
    made = operating.run_with_other_key(signing_key_usecases.renew_authority)
    output.show(_shown(made), as_json=json)


@app.command(name="list")
def list_signing_keys(*, json: Json = False) -> None:
    """Print the signing keys, the latest first, revoked ones too."""
    keys = operating.run(signing_key_usecases.list_signing_keys)
    output.show_list("keys", [_shown(key) for key in keys], as_json=json)


def _shown(key: SigningKey) -> output.Shown:
    return output.pick(key, "kid host created_at signs_from expires_at revoked_at")
