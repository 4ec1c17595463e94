"""``pixconnect signing-key``: the keys that sign tokens, QR codes and webhooks."""

from functools import partial
from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.cells import CellAnswers, ask_cells
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.settings import read_database_settings
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.identity.signing import SigningKey
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.identity import signing_key as signing_key_usecases

app = App(name="signing-key", help="Manage the keys that sign tokens, QR codes and webhooks.")


@app.command
def rotate(*, json: Json = False) -> None:
    """Make a new signing key, in every cell: published at once, it signs a minute later; the old one stays published."""
    _show_made(operating.run_everywhere(signing_key_usecases.rotate), as_json=json)


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
    current = operating.run_at(partial(_find_cell, kid), partial(signing_key_usecases.revoke, kid=kid))
    output.show({"revoked": kid, **_shown(current)}, as_json=json)
    operating.wait_until_in_force()


@app.command(name="renew-authority")
def renew_authority(*, json: Json = False) -> None:
    """Make a new certificate authority, and a new signing key that it certifies, in every cell.

    The key is published at once, and signs a minute later.
    """
    # The first step where the old secret key is lost for good: it needs nothing that was sealed.
    made = operating.run_everywhere(signing_key_usecases.renew_authority, compares_key=False)
    _show_made(made, as_json=json)


@app.command(name="list")
def list_signing_keys(*, json: Json = False) -> None:
    """Print the signing keys, the latest first, revoked ones too."""
    answers = operating.run_everywhere(signing_key_usecases.list_signing_keys)
    keys = [answers.name(cell) | _shown(key) for cell, own in answers.found for key in own]
    output.show_list("keys", keys, as_json=json)
    answers.refuse_missing()


async def _find_cell(kid: str, home: OperatorContext) -> int:
    """The cell that has a key; the home cell where none has it, which then says so."""

    async def look(context: OperatorContext) -> int | None:
        has_it = any(key.kid == kid for key in await signing_key_usecases.list_signing_keys(context))
        return context.policy.cell if has_it else None

    answers = await ask_cells(read_database_settings(), home, look)
    found = [number for number in answers.results if number is not None]
    if not found:
        # It may be a key of a cell that does not answer, which would go on signing.
        answers.refuse_missing()
    return found[0] if found else HOME


def _show_made(answers: CellAnswers[SigningKey], *, as_json: bool) -> None:
    made = [answers.name(cell) | _shown(key) for cell, key in answers.found]
    if len(made) == 1 and not answers.missing:
        output.show(made[0], as_json=as_json)
    else:
        output.show_list("keys", made, as_json=as_json)
    answers.refuse_undone()


def _shown(key: SigningKey) -> output.Shown:
    return {
        "kid": key.kid,
        "host": key.host,
        "created_at": key.created_at,
        "signs_from": key.signs_from,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }
