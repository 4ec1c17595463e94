"""What a person with the service's password cannot do with movements in SQL."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from pixconnect.domain.identity.access import Caller
from pixconnect.usecases.money import incoming
from pixconnect.usecases.money.report import take_reports
from support.attacker import attempt, entry, refuse
from support.books import check_books
from support.service import Service, credit_report, movement_report

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection


@pytest.fixture
async def attacker(service: Service, caller: Caller) -> AsyncIterator["Connection"]:
    async with service.context.pool.acquire() as connection:
        yield connection


def movement(
    item_id: str = "A1", direction: str = "IN", cents: int = 100, status: str = "POSTED", entry_id: str = "1000000000",
    code: str = "null", at: str = "now()",
) -> str:  # fmt: skip
    return f"""
        insert into movement (holder_id, item_id, kind, direction, amount_cents, status, outcome_code, entry_id,
            network_settled_at, created_at)
        values (1, '{item_id}', 'other', '{direction}', {cents}, '{status}', {code}, {entry_id}, {at}, now())
    """


IN = entry("settlement", "available", 100)
OUT = entry("available", "settlement", 100)


async def test_a_movement_and_its_entry_are_made_together(attacker: "Connection", service: Service) -> None:
    made = f"with moved as ({movement()}) {IN}"
    for odd in (
        (movement(),),
        (movement(), IN),
        (IN, movement()),
        (f"with moved as ({movement(cents=101)}) {IN}",),
        (f"with moved as ({movement(direction='OUT')}) {IN}",),
        (f"with moved as ({movement(direction='OUT', cents=100)}) {entry('available', 'reserved', 100)}",),
        (f"with moved as ({movement(entry_id='7')}) {IN}",),
        (f"with moved as ({movement(status='ERROR', entry_id='null', code=quoted('AM04'))}) {IN}",),
        (f"with moved as ({movement(status='ERROR', code=quoted('AM04'))}) {IN}",),
        (movement(status="POSTED", entry_id="null"),),
        (movement(status="ERROR", entry_id="null"),),
        (f"with moved as ({movement(at=quoted('infinity'))}) {IN}",),
        (f"with moved as ({movement(item_id='')}) {IN}",),
        (f"with moved as ({movement()}), again as ({movement('A2')}) {IN}",),
        (made, made),
        (
            made,
            f"with moved as ({movement(entry_id='1000000001')}) {entry('settlement', 'available', 100, id=1_000_000_001)}",
        ),
        (made, entry("settlement", "available", 100, id=1_000_000_001)),
    ):
        await refuse(attacker, *odd)
    await attempt(attacker, made)
    await attempt(attacker, f"with moved as ({movement('A2', 'OUT', entry_id='1000000002')}) "
                  + entry("available", "settlement", 100, id=1_000_000_002))  # fmt: skip
    await check_books(service)


async def test_an_entry_that_was_there_is_no_movements(attacker: "Connection", service: Service) -> None:
    await incoming.receive_credit(service.context, credit_report(service, amount_cents=100))
    await take_reports(service.context, [movement_report(service, direction="IN")])
    for row in await attacker.fetch("select id, amount_cents from ledger_entry where holder_id = 1"):
        await refuse(attacker, movement(cents=row["amount_cents"], entry_id=str(row["id"])))
    await check_books(service)


async def test_a_name_of_the_network_is_no_item(attacker: "Connection", service: Service) -> None:
    report = credit_report(service)
    await incoming.receive_credit(service.context, report)
    await refuse(attacker, f"with moved as ({movement(report.end_to_end_id)}) {IN}")


async def test_a_movement_is_never_changed_nor_deleted(attacker: "Connection", service: Service) -> None:
    await take_reports(service.context, [movement_report(service)])
    for statement in ("update movement set amount_cents = 1", "delete from movement", "truncate movement"):
        await refuse(attacker, statement)


async def test_the_networks_instant_of_an_end_is_written_once(attacker: "Connection", service: Service) -> None:
    await incoming.receive_credit(service.context, credit_report(service))
    await refuse(attacker, "update transfer set network_settled_at = now()")


def quoted(text: str) -> str:
    return f"'{text}'"
