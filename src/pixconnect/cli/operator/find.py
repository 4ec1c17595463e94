"""``pixconnect find``: what has an id, and what the rail has not ended, of all holders."""

from typing import Annotated

from cyclopts import Parameter

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.operating import HolderId
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.whole_number import WHOLE_NUMBER
from pixconnect.cli.operator.origin import show_asker
from pixconnect.cli.operator.unresolved import show_unresolved
from pixconnect.store.identity.origin import Origin
from pixconnect.store.reading.search import Found
from pixconnect.usecases.reading import search as search_usecases


def find(
    any_id: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *,
    unresolved: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    silent_for_s: Annotated[int, WHOLE_NUMBER, Parameter(show_default=True)] = 60,
    holder_id: HolderId | None = None,
    json: Json = False,
) -> None:
    """Print what has an id, of all holders: at most a hundred of each kind.

    It may be an id of ours (each kind numbers its own, so several things may have it), an external_id, a txid, an
    end-to-end id, a return id, a client_id, a Pix key or an account number. For requests of the last 400 days it says
    who made them: the client and its token, the address, the request, or the operator.

    With `--unresolved` print what the rail has not ended: transfers and refunds that were sent to it, and payments that it
    accepted, the longest silent first. The service goes on asking about what was sent, for as long as it takes. There is no
    verb to settle or fail one by hand: that is how money is paid twice.

    Args:
        any_id: The id.
        unresolved: What the rail has not ended; with an id, this transfer, payment or refund only.
        silent_for_s: With `--unresolved`: only those sent or accepted at least this many seconds ago.
        holder_id: With `--unresolved`: of this holder only.
    """
    if unresolved:
        show_unresolved(any_id, silent_for_s, holder_id, as_json=json)
        return
    if any_id is None:
        raise CommandError("--any-id: missing; name an id, or ask for orders with `--unresolved`")
    found = operating.run(lambda context: search_usecases.find_with_origins(context, any_id))
    output.show_list("found", [_shown(one, origin) for one, origin in found], as_json=json)


def _shown(found: Found, origin: Origin | None) -> output.Shown:
    return {
        "kind": found.kind,
        "id": found.id,
        "holder_id": found.holder_id,
        "external_id": found.external_id,
        "name": found.name,
        "status": found.status,
        "amount": found.amount_cents,
        "created_at": found.created_at,
        **({} if origin is None else {"asked_for_by": show_asker(origin)}),
    }
