"""Receipts: of settled transfers only, with a masked CPF, and without internal ids."""

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from pypdf import PdfReader

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.receipts import api as receipt_api
from pixconnect.features.receipts.api import write_receipt_pdf
from pixconnect.features.receipts.rules import Receipt, ReceiptKind, ReceiptParty, lay_out_receipt
from pixconnect.features.receipts.service import read_receipt
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller, Viewer
from pixconnect.kernel.rules.holder import describe_party
from pixconnect.platform import outgoing_text
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.console import open_console, sign_in, sign_in_client
from support.records import ISPB, outside_party
from support.service import STARTED_AT, Service, open_holder, send_out
from support.statement import make_history

CPF = outside_party().tax_id
PARTY = ReceiptParty(name="Ana", tax_id="***.982.247-**", institution="Banco", ispb="12345678", key="ana@a.example")
RECEIPT = Receipt(
    kind="transfer", id=1, holder_id=1, direction="IN", amount_cents=123456, settled_at=STARTED_AT, payer=PARTY,
    payee=PARTY, end_to_end_id="E" + "1" * 31, return_id=None, txid=None, code_kind="key", returned_cents=0,
    message=None, is_book=False, is_test=False,
)  # fmt: skip


async def read(context: Context, caller: Caller, kind: ReceiptKind, resource_id: int) -> Receipt:
    viewer = Viewer(holder_id=caller.holder_id, scopes=caller.scopes)
    return await read_receipt(context, viewer, kind, resource_id)


def list_texts(receipt: Receipt) -> list[str]:
    return [text for section in lay_out_receipt(receipt).sections for _, text in section.lines]


def read_pdf(content: bytes) -> list[str]:
    """The lines of the one page, by a reader that is not ours."""
    (page,) = PdfReader(io.BytesIO(content), strict=True).pages
    return page.extract_text().splitlines()


async def test_each_side_of_each_direction_has_one_in_the_api_and_the_console(service: Service, caller: Caller) -> None:
    await make_history(service, caller)
    transfers = await service.fetch("select id, direction, end_to_end_id from transfer order by id")
    refunds = await service.fetch("select id, flow, return_id, original_end_to_end_id from refund order by id")
    for row in transfers:
        found = await read(service.context, caller, "transfer", row["id"])
        assert (found.direction, found.end_to_end_id) == (row["direction"], row["end_to_end_id"])
        # No complete CPF is shown: of the payer, of the payee, in a key.
        assert CPF not in "".join(list_texts(found))
        assert found.is_test
    for row in refunds:
        found = await read(service.context, caller, "refund", row["id"])
        assert (found.return_id, found.end_to_end_id) == (row["return_id"], row["original_end_to_end_id"])
        assert (found.payee.key, found.direction) == (None, row["flow"])

    services: Any = SimpleNamespace(context=service.context)
    asked: Any = SimpleNamespace(caller=caller, parameter=transfers[0]["id"])
    shown = await receipt_api.get_transfer_receipt(services, asked)
    file = await receipt_api.get_transfer_receipt_file(services, asked)
    assert shown.end_to_end_id is not None
    assert shown.end_to_end_id in file.filename
    assert isinstance(file.content, bytes)
    assert shown.end_to_end_id in "".join(read_pdf(file.content))
    async with open_console(service) as console:
        operator = console.nobody.of(await sign_in(console, "reader"))
        page = await operator.get(f"/refunds/{refunds[0]['id']}/receipt")
        assert "Comprovante de devolução de Pix" in page.content.decode()
        saved = await operator.get(f"/refunds/{refunds[0]['id']}/receipt.pdf")
        assert saved.headers["content-disposition"].startswith("attachment; ")
        assert read_pdf(saved.content)[0] == "Comprovante de devolução de Pix"
        stranger = await open_holder(service, account_number="2")
        other = console.nobody.of(await sign_in_client(console, stranger.holder_id))
        assert (await other.get(f"/transfers/{transfers[0]['id']}/receipt.pdf")).status == 404


async def test_between_two_holders_of_ours_no_id_of_ours_is_printed(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    payee = structs.replace(outside_party(), ispb=ISPB, account_number="2")
    sent = await send_out(service, caller, 100, credit_party=payee)
    (row,) = await service.fetch("select id from transfer where direction = 'IN'")
    for holder, transfer_id in ((caller, sent.id), (other, row["id"])):
        found = await read(service.context, holder, "transfer", transfer_id)
        assert (found.end_to_end_id, found.is_book, found.code_kind) == (None, True, "account")
        assert sent.end_to_end_id not in "".join(list_texts(found))


async def test_what_has_not_settled_is_anothers_or_may_not_be_seen_has_none(service: Service, caller: Caller) -> None:
    sent = await send_out(service, caller, 100)
    with pytest.raises(errors.NotFound, match="PROCESSING"):
        await read(service.context, caller, "transfer", sent.id)
    with pytest.raises(errors.NotFound, match="no such refund"):
        await read(service.context, caller, "refund", sent.id)
    stranger = await open_holder(service, account_number="2")
    with pytest.raises(errors.NotFound, match="no such transfer"):
        await read(service.context, stranger, "transfer", sent.id)
    with pytest.raises(errors.Forbidden):
        await read(service.context, structs.replace(caller, scopes=frozenset()), "transfer", sent.id)


async def test_at_an_institution_it_names_the_institution_and_only_what_the_network_knows(shop: Shop) -> None:
    pix = await shop.receive(payer=describe_party(name="Ana", tax_id="***982247**"), txid="a" * 25)
    await shop.allow()
    refund = await shop.give_back(pix)
    (row,) = await shop.live.fetch("select id from transfer")
    received = await read(shop.context, shop.house, "transfer", row["id"])
    profile = read_profile(shop.account.profile)
    assert (received.payee.institution, received.payee.ispb) == (profile.title, profile.ispb)
    assert (received.payer.tax_id, received.payer.institution, received.payer.ispb) == ("***982247**", None, None)
    assert (received.end_to_end_id, received.txid, received.code_kind) == (pix.end_to_end_id, "a" * 25, "static_code")
    with pytest.raises(errors.NotFound, match="PROCESSING"):
        await read(shop.context, shop.house, "refund", refund.id)
    await shop.move_orders()
    (row,) = await shop.live.fetch("select return_id, network_id from refund")
    returned = await read(shop.context, shop.house, "refund", refund.id)
    assert row["return_id"] not in "".join(list_texts(returned))
    assert (returned.return_id, returned.end_to_end_id) == (row["network_id"], pix.end_to_end_id)
    assert returned.return_id is not None
    assert returned.payee.name == "Ana"


HOSTILE = st.text(max_size=255) | st.sampled_from(["José da Conceição", "Łódź 日本", "\x1b[2J(\\)", "\u202egnp.exe", "W" * 255])


def words_of(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


@settings(max_examples=25)
@given(name=HOSTILE, bank=HOSTILE, message=HOSTILE)
def test_another_reader_finds_on_the_page_what_stands_on_it_whatever_it_is(name: str, bank: str, message: str) -> None:
    party = structs.replace(PARTY, name=name, institution=bank)
    receipt = structs.replace(RECEIPT, payer=party, payee=party, message=message[:140], is_test=True, is_book=True)
    content = write_receipt_pdf(lay_out_receipt(receipt))
    assert content == write_receipt_pdf(lay_out_receipt(receipt))
    found = words_of(read_pdf(content))
    for text in list_texts(receipt):
        assert words_of([outgoing_text.in_pdf(text)]) in found
    assert found.endswith("T1"), "nothing has fallen off the page's end"
