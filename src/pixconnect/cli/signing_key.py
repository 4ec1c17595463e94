"""``pixconnect signing-key``: the keys that sign tokens, QR codes and webhooks."""

from cyclopts import App

from pixconnect.cli import operating
from pixconnect.cli.operating import Json
from pixconnect.usecases import signing_key as signing_key_usecases

app = App(name="signing-key", help="The keys that sign tokens, QR codes and webhooks.")


@app.command
def rotate(*, json: Json = False) -> None:
    """Make a new signing key: published at once, it signs a minute later; the old one stays published.

    Args:
        json: Print one JSON object.
    """
    key = operating.run(signing_key_usecases.rotate)
    operating.show(
        {"kid": key.kid, "created_at": key.created_at, "signs_from": key.signs_from, "expires_at": key.expires_at},
        as_json=json,
    )
