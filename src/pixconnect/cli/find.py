"""``pixconnect find``: what has an id, of all holders."""

from typing import Annotated

from cyclopts import Parameter

from pixconnect.cli import operating, output
from pixconnect.cli.output import Json
from pixconnect.store.search import Found
from pixconnect.usecases import search as search_usecases


def find(any_id: Annotated[str, Parameter(allow_leading_hyphen=True)], *, json: Json = False) -> None:
    """Print what has an id, of all holders: at most a hundred of each kind.

    It may be an id of ours (each kind has its own, so that a number may be several), an external_id, a txid, an end-to-end id,
    a return id, a client_id, a Pix key or an account number.

    Args:
        any_id: The id.
    """
    found = operating.run(lambda context: search_usecases.find_by_any_id(context, any_id))
    output.show_list("found", [_shown(one) for one in found], as_json=json)


def _shown(found: Found) -> output.Shown:
    return {
        "kind": found.kind,
        "id": found.id,
        "holder_id": found.holder_id,
        "external_id": found.external_id,
        "name": found.name,
        "status": found.status,
        "amount": found.amount_cents,
        "created_at": found.created_at,
    }
