"""``pixconnect key``: the Pix keys that lead to holders."""

from cyclopts import App

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.operating import HolderId, TheHolder
from pixconnect.cli.frame.output import Json
from pixconnect.domain.money.holder import KeyType
from pixconnect.domain.money.pix_key import PixKey
from pixconnect.usecases.money import holder as holder_usecases

app = App(name="key", help="Manage holders' Pix keys.")


@app.command
def add(*, holder_id: HolderId, key_type: KeyType, key: str | None = None, json: Json = False) -> None:
    """Register a Pix key that leads to a holder; prints the key as it is kept.

    Args:
        holder_id: The holder that the key leads to.
        key_type: Its type.
        key: The key; an EVP is made if you leave it out.
    """
    added = operating.run(lambda context: holder_usecases.add_pix_key(context, holder_id, key_type, key))
    output.show({**_shown(added), "holder_id": holder_id}, as_json=json)


@app.command
def remove(*, holder_id: HolderId, key: str, json: Json = False) -> None:
    """Remove a Pix key of a holder; prints the key. When it returns, the key leads to nobody, on every process.

    Charges for it can no longer be paid: the service refuses a payment that the rail reports. Another holder may get
    the key a minute later; this one at once.

    Args:
        holder_id: The holder that the key leads to.
        key: The key, with its mask or without.
    """
    removed = operating.run(lambda context: holder_usecases.remove_pix_key(context, holder_id, key))
    output.show({**_shown(removed), "holder_id": holder_id}, as_json=json)
    operating.wait_until_in_force()


@app.command(name="list")
def list_keys(*, holder_id: TheHolder, json: Json = False) -> None:
    """Print a holder's keys, oldest first."""
    keys = operating.run(lambda context: holder_usecases.list_pix_keys(context, holder_id))
    output.show_list("keys", [_shown(key) for key in keys], as_json=json)


def _shown(key: PixKey) -> output.Shown:
    return output.pick(key, "key key_type")
