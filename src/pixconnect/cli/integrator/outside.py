"""``pay``, ``receive``, ``return``, ``deposit``, ``move``: what people outside do, in a sandbox."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from cyclopts import Parameter

from pixconnect.cli.frame import records
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.records import Amount, AnyId, ByExternalId
from pixconnect.cli.integrator import charge, transfer
from pixconnect.cli.integrator.session import open_sandbox
from pixconnect.domain.frame.short_text import trim_pasted
from pixconnect.domain.money.refund import RefundReason
from pixconnect.domain.simulation.sandbox_control import MadeMovementKind
from pixconnect_client import OutsidePayer, Payment

_WHY_UNPAYABLE: Final = dict(APPROVED="the charge has been paid already", EXPIRED="the charge has expired")

PayerName = Annotated[str | None, Parameter(help="The payer's name; made up if left out.")]
PayerTaxId = Annotated[str | None, Parameter(help="The payer's CPF or CNPJ; made up if left out.")]


def pay(
    code: AnyId,
    *,
    external_id: ByExternalId = False,
    amount: Amount | None = None,
    payer_name: PayerName = None,
    payer_tax_id: PayerTaxId = None,
    json: Json = False,
) -> None:
    """Pay one of your charges, as a payer at another institution.

    Args:
        code: The text of its QR code, or the charge's id, external_id or txid.
        amount: In cents; the charge's if left out.
    """
    with open_sandbox() as session:
        code = trim_pasted(code)
        is_code = code.startswith(transfer.QR_CODE_BEGINNING) and not external_id
        known = None if is_code else charge.find(session.client, code, is_external_id=external_id)
        payer = OutsidePayer(name=payer_name, tax_id=payer_tax_id)
        paid = session.client.sandbox.pay(known.emvqrcps if known else code, amount=amount, payer=payer)
    # What paid it before: a charge that is paid now stays paid, whatever became of this payment.
    _show(paid, as_json=json, reason=_WHY_UNPAYABLE.get(known.status) if known else None)


def receive(
    amount: Amount,
    *,
    key: str | None = None,
    payer_name: PayerName = None,
    payer_tax_id: PayerTaxId = None,
    json: Json = False,
) -> None:
    """Send money to a key of yours, from another institution.

    Args:
        amount: In cents: 1000 is R$ 10.00.
        key: The Pix key; by default one of the profile's or the demonstration's.
    """
    with open_sandbox() as session:
        payer = OutsidePayer(name=payer_name, tax_id=payer_tax_id)
        paid = session.client.sandbox.receive(session.own_key(key), amount, payer=payer)
    _show(paid, as_json=json)


def give_back(
    sent: Annotated[AnyId, Parameter(help="The id, external_id or end_to_end_id of the transfer that you sent.")],
    *,
    external_id: ByExternalId = False,
    amount: Amount | None = None,
    reason: RefundReason | None = None,
    json: Json = False,
) -> None:
    """Return a transfer of yours, wholly or in part, as its receiver would.

    Args:
        amount: In cents; all that is left of it if left out.
        reason: Why; MD06, you asked for it, if left out.
    """
    with open_sandbox() as session:
        found = transfer.find(session.client, sent, is_external_id=external_id)
        returned = session.client.sandbox.give_back(found.end_to_end_id, amount=amount, reason=reason)
    records.show(returned, as_json=json)
    if returned.status == "ERROR":
        raise CommandError("the service refused it: no money moved", status=ExitStatus.ENDED_BADLY)


def deposit(amount: Amount, *, json: Json = False) -> None:
    """Put play money into your account.

    Args:
        amount: In cents: 1000 is R$ 10.00.
    """
    with open_sandbox() as session:
        records.show(session.client.sandbox.deposit(amount), as_json=json)


def move(
    kind: MadeMovementKind,
    direction: Literal["IN", "OUT"],
    amount: Amount,
    *,
    text: str | None = None,
    json: Json = False,
) -> None:
    """Let your institution, or a person in its app, move money on your account.

    Args:
        kind: What it is; by_hand is a person in the institution's app.
        direction: Whether it comes in or goes out.
        amount: In cents: 1000 is R$ 10.00.
        text: What the institution writes beside it.
    """
    with open_sandbox() as session:
        records.show(session.client.sandbox.move(kind, direction, amount, text=text), as_json=json)


def _show(paid: Payment, *, as_json: bool, reason: str | None = None) -> None:
    records.show(paid, as_json=as_json)
    if paid.status == "ERROR":
        # Why the network says so is among what is printed.
        why = f"; {reason}" if reason else ""
        raise CommandError(f"it was refused with {paid.code}: no money moved{why}", status=ExitStatus.ENDED_BADLY)
