"""``pixconnect transfer``: send money, and list sent and received transfers."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, time, timedelta
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from pixconnect.doors.cli import output, records, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.session import open_session
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import Amount, AnyId, ByExternalId, ExternalId, Limit, TimeoutS
from pixconnect.doors.cli.whole_number import guess_key_type, read_day
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.transfer import TransferStatus
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.outgoing_text import trim_pasted
from pixconnect_client import (
    AccountType,
    Client,
    Direction,
    Forbidden,
    InvalidRequest,
    NotFound,
    Receipt,
    Transfer,
    TransferParty,
)

PdfFile = Annotated[str | None, Parameter(help="Write it to this file as PDF instead.")]


def show_receipt(
    receipt_id: int, read: Callable[[int], Receipt], read_file: Callable[[int], bytes], pdf: str | None, *, as_json: bool
) -> None:
    if pdf is None:
        records.show(read(receipt_id), as_json=as_json)
        return
    path, content = Path(pdf), read_file(receipt_id)
    # Interrupted, no file with the final name is incomplete.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise CommandError(f"{path}: {error.strerror or error}; nothing was written") from None
    terminal.notice(f"{path}: {len(content):,} octets")


app = App(name="transfer", help="Send money, and list transfers sent and received.")

TheTransfer = Annotated[AnyId, Parameter(help="Its id, external_id or end_to_end_id.")]
QR_CODE_BEGINNING = "000201"  # the beginning of every BR Code, and of no key
_COLUMNS = ("id", "status", "amount", "counterparty", "external_id")
_IF_WIDE = ("waits_for", "amount_returned", "message", "create_timestamp", "end_to_end_id")
_NAMED_MAX = 20  # your names for charges, waits and returned amounts are read one by one


@app.command
def create(
    amount: Amount,
    to: Annotated[str | None, Parameter(show=True)] = None,
    *,
    key_type: KeyType | None = None,
    account: str | None = None,
    name: str | None = None,
    tax_id: str | None = None,
    external_id: ExternalId = None,
    json: Json = False,
) -> None:
    """Send money to a Pix key, to a QR code, or to an account.

    When it returns the money is reserved; `watch` waits until it has arrived.

    Args:
        amount: In cents: 1000 is R$ 10,00.
        to: A Pix key, or the text of a QR code.
        key_type: The key's type; by default derived from its form.
        account: In place of a key, an account: ISPB/BRANCH/NUMBER, such as 99999004/0001/1001; its kind may follow
            (99999004/0001/1001/SAVINGS), by default CHECKING.
        name: The account's owner.
        tax_id: The CPF or CNPJ of the account's owner.
    """
    if (to is None) == (account is None):
        raise CommandError("TO: name a Pix key or a QR code, or an account by --account; one of them")
    party = None if account is None else _read_account(account, name, tax_id)
    to = trim_pasted(to or "")
    with open_session() as session:
        transfers = session.client.transfers
        if party is not None:
            made = transfers.create_by_account(amount, party, external_id=external_id)
        elif to.startswith(QR_CODE_BEGINNING):
            made = transfers.create_by_qr_code(amount, to, external_id=external_id)
        else:
            made = transfers.create_by_key(amount, to, key_type or guess_key_type(to), external_id=external_id)
    records.show(made, as_json=json)


@app.command
def show(transfer: TheTransfer, *, external_id: ByExternalId = False, json: Json = False) -> None:
    """Print a transfer; if it failed, why; under way, what it waits for; if it paid a charge, your own name for the charge."""
    with open_session() as session:
        found = find(session.client, transfer, is_external_id=external_id)
        outcome = session.client.transfers.outcome(found.id)
        paid = {"charge_external_id": _name_charge(session.client, found)}
        later = show_later(session.client, found.id) if found.status == "CONFIRMED" else {}
        waits = {"waits_for": _find_wait(session.client, found)}
    shown = {**records.shown(found), **paid, **later, **waits, "code": outcome.code, "reason": outcome.reason}
    output.show(shown, as_json=json, money=records.MONEY)


def show_later(client: Client, transfer_id: int) -> output.Shown:
    """Return what its receipt says of a payment, and its open contest, as far as the caller may know."""
    later = _read_receipt(client, transfer_id)
    with suppress(Forbidden, NotFound):
        open_ones = chain(*(client.infractions.list(status=each, page_size=100) for each in ("OPEN", "ANSWERED")))
        later["open_infraction"] = next((each.id for each in open_ones if each.transfer_id == transfer_id), None)
    return later


def _read_receipt(client: Client, transfer_id: int) -> output.Shown:
    """Return what was returned of a transfer, and the payer's message; empty if unknown to the caller."""
    with suppress(Forbidden, NotFound):
        found = client.transfers.receipt(transfer_id)
        return {"amount_returned": found.amount_returned or None, "message": found.message}
    return {}


def _find_wait(client: Client, transfer: Transfer) -> str | None:
    """Return whose act a transfer under way waits for, if it does."""
    return client.transfers.parties(transfer.id).waits_for if transfer.status == "PROCESSING" else None


def _name_charge(client: Client, transfer: Transfer) -> str | None:
    """Return your name for the charge that a transfer has paid; ``None`` if there is none, or you may read no charges."""
    txid = transfer.transaction_identification
    if transfer.impact_type is not Direction.IN or txid is None:
        return None
    try:
        return client.charges.get_by_txid(txid).external_id
    except (Forbidden, InvalidRequest, NotFound):
        return None


@app.command
def parties(transfer: TheTransfer, *, external_id: ByExternalId = False, json: Json = False) -> None:
    """Print the known facts about both sides of a transfer, and whether its name is the network's or ours."""
    with open_session() as session:
        found = find(session.client, transfer, is_external_id=external_id)
        known = session.client.transfers.parties(found.id)
    records.show(known, as_json=json)


@app.command
def receipt(transfer: TheTransfer, *, external_id: ByExternalId = False, pdf: PdfFile = None, json: Json = False) -> None:
    """Print the receipt of a transfer that has settled, or write it as PDF (comprovante)."""
    with open_session() as session:
        found, transfers = find(session.client, transfer, is_external_id=external_id), session.client.transfers
        show_receipt(found.id, transfers.receipt, transfers.receipt_file, pdf, as_json=json)


@app.command(name="list")
def list_transfers(
    *,
    status: TransferStatus | None = None,
    direction: Literal["IN", "OUT"] | None = None,
    amount: Amount | None = None,
    day: str | None = None,
    tax_id: str | None = None,
    part: str | None = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Print transfers of both directions, the newest first.

    The first 20 have your own name for the charge that each paid, what they wait for, the payer's message, what was returned.

    Args:
        status: Only transfers with this status.
        direction: Only those that you received, or that you sent.
        amount: Only those of this amount, in cents.
        day: Only those of this day in Sao Paulo: 2026-11-20, 20/11/2026, 20/11, yesterday.
        tax_id: Only those from or to this CPF or CNPJ.
        part: Only those whose end_to_end_id has this part.
    """
    with open_session() as session:
        began_at = None if day is None else datetime.combine(read_day(day, session.read_now()), time.min, SAO_PAULO)
        found = session.client.transfers.search(
            status=status,
            direction=direction,
            amount=amount,
            tax_id=tax_id,
            end_to_end_id_part=part,
            initial_date=began_at,
            final_date=None if began_at is None else began_at + timedelta(days=1, microseconds=-1),
            page_size=min(limit + 1, 100),
        )
        transfers = records.take(found, limit)
        names = {each.id: _name_charge(session.client, each) for each in transfers[:_NAMED_MAX]}
        waits = {each.id: _find_wait(session.client, each) for each in transfers[:_NAMED_MAX]}
        settled = [each.id for each in transfers[:_NAMED_MAX] if each.status in ("CONFIRMED", "RETURNED")]
        receipts = {each: _read_receipt(session.client, each) for each in settled}
    items = [
        {
            **records.shown(each),
            "counterparty": (each.debit_party if each.impact_type is Direction.IN else each.credit_party).name,
            "charge_external_id": names.get(each.id),
            "waits_for": waits.get(each.id),
            **receipts.get(each.id, {}),
        }
        for each in transfers
    ]
    shown = items if json else [_shorten(item) for item in items]
    output.show_list("transfers", shown, as_json=json, columns=_COLUMNS, if_wide=_IF_WIDE, money=records.MONEY)


def _shorten(item: output.Shown) -> output.Shown:
    """Return a row for people: the amount has a sign, and a charge's name is the transfer's."""
    signed = item["amount"] * (1 if item["impact_type"] == "IN" else -1)
    return item | {"amount": signed, "external_id": item["charge_external_id"] or item.get("external_id")}


@app.command
def watch(transfer: TheTransfer, *, external_id: ByExternalId = False, timeout_s: TimeoutS = None, json: Json = False) -> None:
    """Print a transfer's status whenever it changes, until it has ended."""
    with open_session() as session:
        found = find(session.client, transfer, is_external_id=external_id)
        records.watch(lambda: session.client.transfers.get(found.id), {"PROCESSING"}, "CONFIRMED", timeout_s, as_json=json)


def find(client: Client, any_id: str, *, is_external_id: bool = False) -> Transfer:
    of = client.transfers
    ways = of.get, of.get_by_external_id, of.get_by_end_to_end_id
    return records.find("transfer", any_id, *ways, is_external_id=is_external_id)


def _read_account(account: str, name: str | None, tax_id: str | None) -> TransferParty:
    parts = account.split("/")
    if len(parts) not in {3, 4} or not all(parts):
        raise CommandError(f"--account: must be ISPB/BRANCH/NUMBER, such as 99999004/0001/1001; it is {account!r}")
    if name is None or tax_id is None:
        raise CommandError("--name, --tax-id: missing; an account needs its owner's")
    ispb, branch, number, *kind = parts
    # The service checks any other text here.
    account_type = AccountType(kind[0]) if kind else AccountType.CHECKING
    return TransferParty(ispb=ispb, branch=branch, account_number=number, account_type=account_type, name=name, tax_id=tax_id)
