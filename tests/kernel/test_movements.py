"""SQL about movements that the service's login cannot execute."""

import re
from typing import TYPE_CHECKING, Any, get_args

from pixconnect.features.institutions.rules.joining import NO_PIX
from pixconnect.features.sandbox.rules import MadeMovementKind
from pixconnect.kernel.flows import incoming
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.rail import MovementKind
from support.attacker import attempt, entry, refuse
from support.books import check_books
from support.service import Service, credit_report, movement_report

if TYPE_CHECKING:
    from pixconnect.platform.pool import Connection


def movement(
    item_id: str = "A1", direction: str = "IN", cents: int = 100, status: str = "POSTED", entry_id: str = "1000000000", *,
    code: str = "null", at: str = "now()", lacking_cents: int = 0, deficit_entry_id: str = "null", kind: str = "other",
) -> str:  # fmt: skip
    return f"""
        insert into movement (holder_id, item_id, kind, direction, amount_cents, status, outcome_code, entry_id,
            network_settled_at, created_at, deficit_cents, deficit_entry_id)
        values (1, '{item_id}', '{kind}', '{direction}', {cents}, '{status}', {code}, {entry_id}, {at}, now(),
            {lacking_cents}, {deficit_entry_id})
    """


def repayment(cents: int, id: int, source_id: int) -> str:  # noqa: A002 - the column's name
    return f"""
        insert into repayment (id, holder_id, source_entry_id, amount_cents, created_at)
        values ({id}, 1, {source_id}, {cents}, now())
    """


IN = entry("settlement", "available", 100)
OUT = entry("available", "settlement", 100)


async def test_the_tables_know_the_kinds_of_movements_and_no_others(attacker: "Connection") -> None:
    found = await attacker.fetch(
        "select conrelid::regclass::text as name, pg_get_constraintdef(oid) as rule from pg_constraint"
        " where conname in ('movement_kind_check', 'institution_item_kind_check')"
    )
    kinds = {row["name"]: set(re.findall("'([a-z_]+)'", row["rule"])) for row in found}
    # A Pix and its return are lines of an institution's statement, and no movements.
    assert kinds == dict(movement={*get_args(MovementKind)}, institution_item={*get_args(MovementKind), "pix", "refund"})
    assert {*get_args(MovementKind)} == {*get_args(MadeMovementKind), "opening_balance"}
    assert kinds["movement"] >= NO_PIX


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
        (movement(cents=0, entry_id="null"),),
        (movement(cents=0, kind="opening_balance"),),
        (f"with moved as ({movement(at=quoted('infinity'))}) {IN}",),
        (f"with moved as ({movement(item_id='')}) {IN}",),
        (f"with moved as ({movement()}), again as ({movement('A2')}) {IN}",),
        (made, made),
        (made, f"with moved as ({movement(entry_id='1000000001')}) {entry('settlement', 'available', 100, id=1_000_000_001)}"),
        (made, entry("settlement", "available", 100, id=1_000_000_001)),
        (made, entry("settlement", "available", 100, id=1_000_000_001, cause_id=10**9)),
        *(
            (f"with moved as ({movement()}) {entry('settlement', 'available', 100, **odd)}",)
            for odd in (
                {"cause_state": "ERROR"},
                {"cause_id": 7},
                {"cause_kind": "deposit", "cause_state": "MADE"},
                {"cause_kind": "adjustment", "cause_state": "available"},
                {"cause_kind": "transfer", "cause_state": "CONFIRMED"},
            )
        ),
    ):
        await refuse(attacker, *odd)
    await attempt(attacker, made)
    await attempt(attacker, f"with moved as ({movement('A2', 'OUT', entry_id='1000000002')}) "
                  + entry("available", "settlement", 100, id=1_000_000_002))  # fmt: skip
    await check_books(service)


FIRST, SECOND, THIRD = 1_000_000_100, 1_000_000_101, 1_000_000_102
ALL_CENTS = 1_000_000  # the holder's first balance


def owe(lacking_cents: int, *, entry_cents: int | None = None, item_id: str = "fee", **changes: Any) -> str:
    """A fee of the whole balance, and the missing rest."""
    columns: dict[str, Any] = {
        "direction": "OUT",
        "cents": ALL_CENTS + lacking_cents,
        "lacking_cents": lacking_cents,
        "entry_id": str(FIRST),
        "deficit_entry_id": str(SECOND),
    }
    moved = movement(item_id, **(columns | changes))
    lacking = entry("deficit", "settlement", entry_cents or lacking_cents, id=SECOND, cause_id=FIRST)
    return f"with moved as ({moved}), lacking as ({lacking}) {entry('available', 'settlement', ALL_CENTS, id=FIRST)}"


async def test_what_is_lacking_is_owed_by_the_movement_alone(attacker: "Connection", service: Service) -> None:
    for odd in (
        entry("deficit", "settlement", 10, id=SECOND),
        entry("deficit", "available", 10, id=SECOND),
        entry("deficit", "funding", 10, id=SECOND),
        owe(10, entry_cents=11),
        owe(10, cents=ALL_CENTS),
        owe(10, deficit_entry_id="null"),
        owe(10, deficit_entry_id=str(FIRST)),
        owe(10, entry_id="null"),
        owe(10, direction="IN"),
        # The balance is taken first.
        f"with moved as ({movement('fee', 'OUT', 10, entry_id='null', lacking_cents=10, deficit_entry_id=str(SECOND))}) "
        + entry("deficit", "settlement", 10, id=SECOND),
        movement("fee", "OUT", 10, entry_id="null", lacking_cents=10, deficit_entry_id=str(SECOND)),
    ):
        await refuse(attacker, odd)
    await attempt(attacker, owe(10))
    await attempt(attacker, movement("zero", cents=0, entry_id="null", kind="opening_balance"))
    await refuse(attacker, owe(10, item_id="again"))
    await check_books(service)


def come(repaid_cents: int, cents: int = 100, *, entry_cents: int | None = None, source_id: int = THIRD) -> str:
    """A wire transfer, with the repayment from it in the same insert, so that the entries follow each other."""
    repaid_id = THIRD + 1
    return f"""
        with moved as ({movement("wire", cents=cents, entry_id=str(THIRD))}),
        repaid as ({repayment(repaid_cents, repaid_id, source_id)})
        insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
            created_at, cause_kind, cause_id, cause_state)
        select id, 1, debit::ledger_account, credit::ledger_account, cents, last_number + step,
            available_cents + reserved_cents + after, last_entry_at + step * interval '1 hour',
            kind::entry_cause, id, state::cause_state
        from whole_balance, (values
            ({THIRD}, 'settlement', 'available', {cents}, 1, {cents}, 'movement', 'POSTED'),
            ({repaid_id}, 'available', 'deficit', {entry_cents or repaid_cents}, 2, {cents - (entry_cents or repaid_cents)},
                'repayment', 'MADE')
        ) as new (id, debit, credit, cents, step, after, kind, state) where holder_id = 1
    """


async def test_whatever_comes_in_repays_in_the_same_statement(attacker: "Connection", service: Service) -> None:
    await refuse(attacker, come(10))
    await attempt(attacker, owe(10))
    for odd in (
        (f"with moved as ({movement('wire', entry_id=str(THIRD))}) {entry('settlement', 'available', 100, id=THIRD)}",),
        (come(9),),
        (come(11),),
        (come(10, entry_cents=9),),
        (come(10, source_id=FIRST),),
        (come(10, source_id=THIRD + 1),),
        (come(10, source_id=7),),
        (repayment(10, THIRD + 1, THIRD),),
        (repayment(10, FIRST, FIRST),),
    ):
        await refuse(attacker, *odd)
    await attempt(attacker, come(10))
    await refuse(attacker, repayment(10, THIRD + 1, THIRD))
    for statement in ("update repayment set amount_cents = 1", "delete from repayment", "truncate repayment"):
        await refuse(attacker, statement)
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
