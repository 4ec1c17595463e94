"""``pixconnect trigger``: causes any event by the acts that lead to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from cyclopts import Parameter

from pixconnect.cli.frame import output
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.records import MONEY, Amount
from pixconnect.cli.integrator import recipes
from pixconnect.cli.integrator.event_search import FoundEvent, wait_for_event
from pixconnect.cli.integrator.outside import PayerName, PayerTaxId
from pixconnect.cli.integrator.session import open_sandbox
from pixconnect.domain.frame.event import EventName
from pixconnect_client import OutsidePayer

_HAPPENS_WITHIN_S: Final = 30.0


def trigger(
    event: EventName,
    *,
    amount: Amount = recipes.AMOUNT_CENTS,
    external_id: str | None = None,
    key: str | None = None,
    payer_name: PayerName = None,
    payer_tax_id: PayerTaxId = None,
    code: Annotated[str, Parameter(show_default=True)] = "AC03",
    json: Json = False,
) -> None:
    """Make an event happen in a sandbox, by making the charge, transfer or refund that leads to it; prints the event.

    `qrcode.expired` moves the sandbox's clock, which is one for all.

    Args:
        event: Its name.
        amount: In cents.
        external_id: Your own name for the charge, transfer or refund that it is about; it must be new.
        key: The Pix key of yours that is paid; by default one of the profile's or the demonstration's.
        code: By which code the network rejects what ends in an error.
    """
    with open_sandbox() as session:
        client = session.client
        chosen = recipes.Chosen(
            client=client,
            key=session.own_key(key),
            amount=amount,
            external_id=external_id,
            payer=OutsidePayer(name=payer_name, tax_id=payer_tax_id),
            code=code,
        )
        # The sandbox's time, which may be ahead; a little earlier, because we read it before we act.
        since = client.sandbox.clock().now - timedelta(seconds=1)
        field, value = recipes.follow(event, chosen)

        def is_meant(found: FoundEvent) -> bool:
            return found["name"] == event and found["payload"].get(field) == value

        found = wait_for_event(client, since, is_meant, _HAPPENS_WITHIN_S)
    output.show(found, as_json=json, money={f"payload.{name}" for name in MONEY})
