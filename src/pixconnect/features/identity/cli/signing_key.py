"""``pixconnect signing-key`` and ``secrets``: signing keys, and the secret key that seals them and other secrets."""

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.doors.cli import operating, output
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.output import Json
from pixconnect.features.identity.rules import SigningKey
from pixconnect.features.identity.service import secret_key as secret_key_usecases
from pixconnect.features.identity.service import signing_key as signing_key_usecases

app = App(name="signing-key", help="Manage the keys that sign tokens, QR codes and webhooks.")


@app.command
def rotate(*, json: Json = False) -> None:
    """Make a new signing key: published at once, it signs a minute later; the old one stays published."""
    output.show(_shown(operating.run(signing_key_usecases.rotate)), as_json=json)


Kid = Annotated[str, Parameter(allow_leading_hyphen=True)]  # one key in 64 has a name that begins with a hyphen


@app.command
def revoke(kid: Kid, *, json: Json = False) -> None:
    """Revoke a key; prints the present signing key. When it returns, no process accepts the old one any more.

    Its tokens are refused, and it is no longer published. If it was the signing key, a new key replaces it at once.

    Args:
        kid: The key's name, as in `signing-key list` and in the header of its signatures.
    """
    # No confirmation: an operator who revokes a key is in a hurry, and a new key signs at once.
    current = operating.run(signing_key_usecases.revoke, kid=kid)
    output.show({"revoked": kid, **_shown(current)}, as_json=json)
    operating.wait_until_in_force()


@app.command(name="renew-authority")
def renew_authority(*, json: Json = False) -> None:
    """Make a new certificate authority, and a new signing key that it certifies.

    The key is published at once, and signs a minute later.
    """
    # The first step if the old secret key is lost for good: it needs nothing that was sealed.
    made = operating.run_with_other_key(signing_key_usecases.renew_authority)
    output.show(_shown(made), as_json=json)


@app.command(name="list")
def list_signing_keys(*, json: Json = False) -> None:
    """Print the signing keys, the latest first, revoked ones too."""
    keys = operating.run(signing_key_usecases.list_signing_keys)
    output.show_list("keys", [_shown(key) for key in keys], as_json=json)


def _shown(key: SigningKey) -> output.Shown:
    return output.pick(key, "kid host created_at signs_from expires_at revoked_at")


_NAMED_MAX = 10

secrets_app = App(name="secrets", help="Reseal stored secrets after a change of the secret key.")


@secrets_app.command
def reseal(*, json: Json = False) -> None:
    """Encrypt with PIXCONNECT_SECRET_KEY all values that another key encrypted; prints the done and the remaining ones.

    The service keeps running meanwhile. If this command is interrupted, run it again: it continues where it stopped.
    """
    # It checks every secret by itself, and names those that no key opens.
    done = operating.run_with_other_key(secret_key_usecases.reseal)
    broken = done.broken
    resealed = {f"{kind}_resealed": count for kind, count in done.counts.items()}
    output.show(resealed | {"secrets_left": len(broken), "clients_left": done.clients_left_count}, as_json=json)
    # The result is printed all the same; the exit status shows that work remains.
    if broken:
        raise CommandError(
            f"neither key opens {', '.join(broken[:_NAMED_MAX])}{', ...' if len(broken) > _NAMED_MAX else ''}: "
            "set PIXCONNECT_SECRET_KEY_PREVIOUS to the key that sealed it, or give it a new secret; what ends in "
            ":sending needs PIXCONNECT_SENDING_SECRET_KEY, and its previous one"
        )


@secrets_app.command(name="clients-left")
def clients_left(*, json: Json = False) -> None:
    """Print the clients that have not logged in since the secret key was replaced: they still need the previous one."""
    clients = operating.run(secret_key_usecases.list_clients_left)
    shown = [output.pick(one, "client_id holder_id name disabled_at") for one in clients]
    output.show_list("clients", shown, as_json=json)
