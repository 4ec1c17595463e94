"""What a payer or a holder writes into a Pix posts nothing beside that Pix, and on nobody else's account.

A payment that is read after the statement of its day reopens that day, unless the statement has it.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from msgspec import structs

from features.cases.service.test_answer import answer, look, moved, waiting
from features.cases.service.test_separation import joins, state
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service import statement as statement_usecases
from support.account_shop import Shop, make_owner, open_in_july
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.statement_files import make_camt, make_camt_entry, make_ofx, make_ofx_line


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    """An account with a second holder; its books began with 100.00, and its files are read two days later."""
    keys = [own_key(), own_key("2")]
    async with open_in_july(database, InstitutionTraits(sends=("KEY",)), keys=keys) as shop:
        tenant_id = await make_owner(shop.live, "2")
        await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {tenant_id}")
        shop.live.clock.advance(days=-2)
        yield shop


async def take(shop: Shop, content: bytes) -> None:
    recorded = await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
    await statement_usecases.settle_items(shop.live.context, shop.account, recorded.first_on)


def write_lines(form: str, *lines: tuple[str, str, str], closing: str) -> bytes:
    """A line is its id, its amount and what a person wrote into it; the bank's own words are only in the OFX."""
    if form == "ofx":
        written = [
            make_ofx_line(item_id=name, amount=cents, at="20260701", name="PIX", memo=text) for name, cents, text in lines
        ]
        return make_ofx(*written, first="20260701", last="20260701", opening="100.00", closing=closing)
    entries = [
        make_camt_entry(
            item_id=name,
            amount=cents.lstrip("-"),
            indicator="DBIT" if cents.startswith("-") else "CRDT",
            at="2026-07-01",
            details=f"<NtryDtls><TxDtls><RmtInf><Ustrd>{text}</Ustrd></RmtInf></TxDtls></NtryDtls>",
        )
        for name, cents, text in lines
    ]
    balances = "".join(
        f'<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">{cents}</Amt>'
        "<CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-07-01</Dt></Dt></Bal>"
        for code, cents in (("OPBD", "100.00"), ("CLBD", closing))
    )
    return make_camt(*entries, account="12345-6", first="2026-07-01", last="2026-07-01", balances=balances)


async def funds(shop: Shop) -> list[tuple[int, ...]]:
    rows = await shop.live.fetch("select available_cents, blocked_cents from balance order by holder_id")
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("form", ["camt", "ofx"])
async def test_a_payer_who_writes_a_fee_of_another_pix_credits_nobody_twice(shop: Shop, form: str) -> None:
    old, new = shop.pay(1_00, key=own_key("2")), shop.pay(5000_00)
    await shop.read()
    shop.live.clock.advance(days=2)
    lines = ("P1", "1.00", old.end_to_end_id), ("P2", "5000.00", f"TARIFA {old.end_to_end_id}")
    await take(shop, write_lines(form, *lines, closing="5101.00"))
    assert (await moved(shop), await waiting(shop)) == ([], {"P2": "could_be_ours"})
    assert await funds(shop) == [(5100_00, 0), (1_00, 0)]
    (case,) = await look(shop)
    (received,) = await shop.live.fetch("select id from transfer where end_to_end_id = $1", new.end_to_end_id)
    await answer(shop, case.id, ours={"P2": f"transfer:{received['id']}"})
    assert (await joins(shop), await state(shop)) == ({"P1": "transfer", "P2": "transfer"}, "closed")


@pytest.mark.parametrize("form", ["camt", "ofx"])
async def test_a_returned_fee_goes_to_the_holder_who_paid_it(shop: Shop, form: str) -> None:
    old = shop.pay(40_00, key=own_key("2"))
    await shop.read()
    shop.live.clock.advance(days=2)
    await shop.read()
    name = f"TARIFA {old.end_to_end_id}"
    lines = ("P1", "40.00", old.end_to_end_id), ("P2", "-1.75", name), ("P3", "1.75", name)
    await take(shop, write_lines(form, *lines, closing="140.00"))
    assert (await moved(shop), await waiting(shop)) == ([-175, 175], {})
    assert await funds(shop) == [(100_00, 0), (40_00, 0)]


@pytest.mark.parametrize("form", ["camt", "ofx"])
async def test_what_one_holder_writes_debits_no_other(shop: Shop, form: str) -> None:
    old = shop.pay(40_00, key=own_key("2"))
    await shop.read()
    await shop.allow_sending()
    await shop.send(30_00)
    for _ in range(2):
        await shop.move_orders()
        shop.live.clock.advance(minutes=1)
    shop.live.clock.advance(days=2)
    lines = ("P1", "40.00", old.end_to_end_id), ("P2", "-30.00", f"TARIFA {old.end_to_end_id}")
    await take(shop, write_lines(form, *lines, closing="110.00"))
    assert (await moved(shop), await waiting(shop)) == ([], {"P2": "could_be_ours"})
    assert await funds(shop) == [(40_00, 30_00), (40_00, 0)], "the debit is reserved on the house until it is known"


async def test_a_pix_that_is_read_after_its_day_has_closed_is_a_case(shop: Shop) -> None:
    await shop.read()
    shop.live.clock.advance(days=2)
    await take(shop, write_lines("camt", ("P1", "-1.00", "TARIFA MENSAL"), closing="99.00"))
    assert (await state(shop), await look(shop)) == ("closed", [])
    late = shop.pay(10_00, settled_at=shop.live.clock.real_now() - timedelta(days=2))
    await shop.read()
    assert await state(shop) == "closed_with_cases"
    (case,) = await look(shop)
    assert late.end_to_end_id in case.facts


@pytest.mark.parametrize(("form", "is_listed"), [("camt", False), ("ofx", False), ("camt", True)])
async def test_an_order_that_ends_after_its_day_has_closed_is_a_case_without_its_line(
    shop: Shop, form: str, is_listed: bool
) -> None:
    await shop.read()
    await shop.allow_sending()
    shop.there.send_status = "under_way"
    sent = await shop.send(30_00)
    await shop.move_orders()
    settled_at = shop.live.clock.real_now()
    shop.live.clock.advance(days=2)
    lines = [("P1", "-1.00", "TARIFA MENSAL")]
    if is_listed:
        # The bank's list of what was sent is behind its statement.
        await shop.move_orders()
        lines.append(("P2", "-30.00", next(iter(shop.there.sent.values())).end_to_end_id or ""))
    await take(shop, write_lines(form, *lines, closing="69.00" if is_listed else "99.00"))
    assert await state(shop) == "closed"
    shop.there.sent = {
        name: structs.replace(pix, status="settled", settled_at=settled_at) for name, pix in shop.there.sent.items()
    }
    await shop.move_orders(minutes=10)
    assert await funds(shop) == [(69_00, 0), (0, 0)]
    cases = await look(shop)
    (day,) = await shop.live.fetch("select reopened_at is not null as was_reopened from institution_day")
    assert day["was_reopened"] == (not is_listed)
    assert [sent.end_to_end_id in case.facts for case in cases] == ([] if is_listed else [True])
