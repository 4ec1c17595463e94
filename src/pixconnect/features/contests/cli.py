"""``pixconnect infraction``: payers' contests, and the holder's answers."""

from contextlib import suppress
from itertools import islice
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter

from pixconnect.doors.cli import records, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.recipes import DAY_S, Chosen, Mark, Recipe, make_charge, wait_while
from pixconnect.doors.cli.integrator.session import open_session
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import AnyId, Limit
from pixconnect.platform.base.clock import format_local
from pixconnect_client import Client, Infraction, NotFound

app = App(name="infraction", help="Answer contests of received Pix.")

TheInfraction = Annotated[
    AnyId, Parameter(help="Its id or infraction_id, the Pix's end_to_end_id, or the charge's external_id or txid.")
]
Status = Literal["OPEN", "ANSWERED", "TAKEN", "RELEASED"]
_COLUMNS = ("id", "status", "amount", "held", "taken", "respond_by", "end_to_end_id")


@app.command(name="list")
def list_infractions(*, status: Status | None = None, limit: Limit = 20, json: Json = False) -> None:
    """Print infractions, the newest first.

    Args:
        status: Only infractions with this status.
    """
    with open_session() as session:
        listed = session.client.infractions.list(status=status, page_size=min(limit, 100))
        found = list(islice(listed, limit))
    records.show_items("infractions", found, _COLUMNS, as_json=json)


@app.command
def show(infraction: TheInfraction, *, json: Json = False) -> None:
    """Print an infraction."""
    with open_session() as session:
        records.show(_find(session.client, infraction), as_json=json)


@app.command
def defend(infraction: TheInfraction, text: str, *, json: Json = False) -> None:
    """Answer an infraction, once and until its `respond_by`.

    Args:
        text: Why the Pix is rightly yours: `infraction show` prints the maximum length.
    """
    with open_session() as session:
        found = _find(session.client, infraction)
        records.show(session.client.infractions.defend(found.id, text), as_json=json)


def _find(client: Client, any_id: str) -> Infraction:
    if (number := records.read_id(any_id)) is not None:
        with suppress(NotFound):
            return client.infractions.get(number)
    name = records.join_groups(any_id)
    # There are few: with thousands of them, callers use ids.
    listed = client.infractions.list(page_size=100)
    found = [
        each
        for each in listed
        if name in (each.infraction_id, each.end_to_end_id, each.external_id, each.transaction_identification)
    ]
    if len(found) > 1:
        ids = ", ".join(str(each.id) for each in found)
        raise CommandError(f"there are several infractions of {any_id}: name one of {ids}")
    if not found:
        raise CommandError(f"there is no infraction {any_id} of this holder")
    return found[0]


def _contest(chosen: Chosen) -> str:
    paid = chosen.client.sandbox.pay(make_charge(chosen).emvqrcps, payer=chosen.payer)
    return chosen.client.sandbox.open_infraction(paid.end_to_end_id).infraction_id


def _answer(chosen: Chosen) -> Mark:
    name, client = _contest(chosen), chosen.client
    found = next(each for each in client.infractions.list(status="OPEN") if each.infraction_id == name)
    client.infractions.defend(found.id, "The parcel was delivered to who paid for it.")
    wait_while("OPEN", lambda: client.infractions.get(found.id))
    return "infraction_id", name


def _be_reminded(chosen: Chosen) -> Mark:
    name = _contest(chosen)
    # Seven days to answer, and two before that are over.
    now = chosen.client.sandbox.advance_clock(5 * DAY_S + 60).now
    terminal.notice(f"the sandbox's clock is 5 d further, at {format_local(now)} (`pixconnect clock reset`)")
    return "infraction_id", name


def _decide(chosen: Chosen, decision: Literal["take", "release"]) -> Mark:
    return "infraction_id", chosen.client.sandbox.decide_infraction(_contest(chosen), decision).infraction_id


RECIPES: Final = (
    Recipe("infraction.opened", lambda chosen: ("infraction_id", _contest(chosen))),
    Recipe("infraction.answered", _answer),
    Recipe("infraction.taken", lambda chosen: _decide(chosen, "take")),
    Recipe("infraction.released", lambda chosen: _decide(chosen, "release")),
    Recipe("infraction.reminded", _be_reminded),
)
