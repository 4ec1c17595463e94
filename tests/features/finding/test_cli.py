"""``pixconnect find``: any id leads to its resource, of any holder."""

import asyncpg
import pytest
from msgspec import structs

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import incoming
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.rail import SettledReport
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.platform.base.clock import to_day
from support.command_line import DISABLED_ENDPOINT, CommandLine
from support.postgres import Addresses
from support.records import outside_party, own_key
from support.service import credit_report, open_holder, open_service


@pytest.fixture
async def charge(database: Addresses) -> Charge:
    """A charge and a received transfer of a holder, another holder's charge with the same external_id, and an endpoint."""
    async with open_service(database) as service:
        caller, other = (await open_holder(service), await open_holder(service, account_number="2", key="other@shop.example"))
        request = ChargeRequest(amount_cents=1234, key=own_key(), external_id="order-1")
        made = await charge_usecases.create_charge(service.context, caller, request)
        again = ChargeRequest(amount_cents=5, key="other@shop.example", external_id="order-1")
        await charge_usecases.create_charge(service.context, other, again)
        report = structs.replace(credit_report(service, amount_cents=2_550), payer_message="pedido 77")
        await incoming.receive_credit(service.context, report)
        back = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=550)
        refund = await refund_usecases.start_refund(service.context, caller, back)
        at = service.clock.now()
        await take_reports(service.context, [SettledReport(report_id="r1", id=refund.return_id, settled_at=at)])
    owner = await asyncpg.connect(database.owner_url)
    await owner.execute(DISABLED_ENDPOINT)
    await owner.close()
    return made


def test_any_id_leads_to_what_has_it(charge: Charge, pixconnect: CommandLine) -> None:
    (found,) = pixconnect.json("find", charge.txid)["found"]
    assert (found["kind"], found["id"], found["holder_id"]) == ("charge", str(charge.id), charge.holder_id)
    assert (found["external_id"], found["amount"], found["status"]) == ("order-1", 1234, "PENDING")
    kinds = {one["kind"] for one in pixconnect.json("find", str(charge.id))["found"]}
    assert "charge" in kinds
    (key,) = pixconnect.json("find", "OTHER@shop.example")["found"]
    assert (key["kind"], key["id"]) == ("key", "other@shop.example")
    assert "endpoint" in {one["kind"] for one in pixconnect.json("find", "5")["found"]}


def test_an_external_id_of_several_holders_leads_to_all_of_them(charge: Charge, pixconnect: CommandLine) -> None:
    found = {(one["kind"], one["holder_id"]) for one in pixconnect.json("find", "order-1")["found"]}
    assert found == {("charge", charge.holder_id), ("charge", charge.holder_id + 1)}


def test_what_is_known_of_it_leads_there_too(charge: Charge, pixconnect: CommandLine) -> None:
    day = to_day(charge.created_at).isoformat()
    for asked in (("--amount", "1234", "--day", day), ("12,34",), ("--part", charge.txid[4:12].swapcase())):
        (found,) = pixconnect.json("find", *asked)["found"]
        assert (found["kind"], found["id"]) == ("charge", str(charge.id))
    (received,) = pixconnect.json("find", "25,50")["found"]
    (same,) = [one for one in pixconnect.json("find", received["id"])["found"] if one["kind"] == "transfer"]
    assert received["message"] == same["message"] == "pedido 77"
    (back,) = pixconnect.json("find", "--amount", "550")["found"]
    assert (received["amount_returned"], back["reason"]) == (550, "MD06")
    assert (received["kind"], received["direction"], received["counterparty"]) == ("transfer", "IN", outside_party().name)
    # Parties without a tax id have a CPF of zeros, which belongs to no person.
    assert "--tax-id: must be" in pixconnect.refusal("find", "--tax-id", "00000000000")
    assert "--day: must be" in pixconnect.refusal("find", "--day", "20-13-2026")


def test_what_nothing_has_is_said(pixconnect: CommandLine) -> None:
    for nothing in ("order-404", "99999999999999999999", "-x"):
        assert f"nothing has the id, name or tax id {nothing}; `--part` finds" in pixconnect.refusal("find", nothing)
    assert "`pixconnect institution ask` reads it" in pixconnect.refusal("find", "E99999003202607011500aaaaaaaaaaa")
    refused = pixconnect.refusal("find", "01a22015-009d-77b8-b816-295946fe01e1")
    assert "a refused request made nothing" in refused
    assert "no charge, transfer or refund of 12,35" in pixconnect.refusal("find", "12,35")
    assert "of 12,35 on 2026-11-20 (days of Sao Paulo)" in pixconnect.refusal("find", "12,35 20/11/2026")
    assert "of R$ 1.235,00 on 2026-11-20 (days" in pixconnect.refusal("find", "1235 20/11/2026")
    assert "of 12,35 by or to Maria; 'Maria' was read as a name" in pixconnect.refusal("find", "12,35 Maria")
    assert "not understood, nor an id: 12,35 3/4/5" in pixconnect.refusal("find", "12,35 3/4/5")
    assert "an amount is written as 'R$ 1.234.567,89'" in pixconnect.refusal("find", "123456789")


async def test_yesterday_is_that_of_the_moved_clock(charge: Charge, pixconnect: CommandLine, database: Addresses) -> None:
    owner = await asyncpg.connect(database.owner_url)
    await owner.execute("set search_path to pixconnect")
    moved = "extract(epoch from $1::timestamptz + '1 day'::interval - now()) * 1000000"
    await owner.execute(f"update clock set revision = revision + 1, offset_us = {moved}", charge.created_at)
    await owner.close()
    for asked in (("25,50 yesterday",), ("25,50 from yesterday",), ("--amount", "2550", "--day", "yesterday")):
        (found,) = pixconnect.json("find", *asked)["found"]
        assert (found["kind"], found["amount"]) == ("transfer", 2_550)
