"""SQL about blocks that the service's login cannot execute."""

from pixconnect.platform.pool import Connection
from support.attacker import attempt, entry, refuse
from support.books import check_books
from support.service import Service, open_holder

FIRST, SECOND = 1_000_000_100, 1_000_000_101
ALL_CENTS = 1_000_000  # the holder's first balance


def block(cents: int = 100, covered_cents: int | None = None, *, kind: str = "judicial", wanted_cents: int | None = None,
          state: str = "open", reference: str = "J1") -> str:  # fmt: skip
    covered = cents if covered_cents is None else covered_cents
    return f"""
        insert into block (id, holder_id, kind, reference, wanted_cents, held_cents, covered_cents, source, state, reported_at,
            created_at, modified_at)
        values (7, 1, '{kind}', '{reference}', {cents if wanted_cents is None else wanted_cents}, {cents}, {covered}, 'r',
            '{state}', now(), now(), now())
    """


def step(cents: int = 100, kind: str = "covered", id: int = FIRST, refund_id: int | None = None) -> str:  # noqa: A002 - the column's name
    return f"""
        insert into block_step (id, holder_id, block_id, kind, amount_cents, created_at, refund_id)
        values ({id}, 1, 7, '{kind}', {cents}, now(), {"null" if refund_id is None else refund_id})
    """


COVER = entry("available", "blocked", 100, id=FIRST)
TAKEN = entry("blocked", "available", 40, id=SECOND, cause_state="taken")
LOWERED = "update block set wanted_cents = 60, held_cents = 60, covered_cents = 60"


def together(*parts: str, then: str = COVER) -> str:
    return f"with {', '.join(f'part{n} as ({part})' for n, part in enumerate(parts))} {then}"


async def test_a_block_its_steps_and_their_entries_are_made_together(attacker: Connection, service: Service) -> None:
    for odd in (
        COVER,
        block(),
        together(block()),
        together(block(), step(99)),
        together(block(99, 99), step()),
        together(block(100, 99), step()),
        together(block(), step(kind="released")),
        together(block(), step(kind="held")),
        together(block(), step(kind="taken")),
        together(block(), step(kind="released"), then=entry("available", "blocked", 100, id=FIRST, cause_state="released")),
        together(block(), step(), then=entry("available", "blocked", 100, id=FIRST, cause_kind="repayment")),
        together(block(), step(), then=entry("available", "blocked", 100, id=FIRST, cause_id=SECOND)),
        together(block(), step(id=SECOND)),
        together(block(), step(), then=entry("settlement", "blocked", 100, id=FIRST)),
        together(block(), step(), then=entry("funding", "blocked", 100, id=FIRST)),
        together(block(kind="precautionary"), step()),
        together(block(wanted_cents=99), step()),
        together(block(state="ended"), step()),
        # The available balance covers it first.
        together(block(200, 100), step()),
        block(100, 0),
    ):
        await refuse(attacker, odd)
    await attempt(attacker, together(block(), step()))
    await refuse(attacker, together(block(), step(id=SECOND), then=entry("available", "blocked", 100, id=SECOND)))
    await check_books(service)


async def test_what_is_blocked_leaves_its_block_as_it_came(attacker: Connection, service: Service) -> None:
    await attempt(attacker, together(block(), step()))
    back = entry("blocked", "available", 40, id=SECOND)
    for odd in (
        back,
        together(step(40, "released", SECOND), then=back),
        together("update block set held_cents = 60, covered_cents = 60", then=back),
        together("update block set held_cents = 60, covered_cents = 60", step(40, "hold_ended", SECOND), then=back),
        together("update block set covered_cents = 60", step(40, "released", SECOND), then=back),
        together(
            "update block set held_cents = 60, covered_cents = 60",
            step(40, "released", SECOND),
            then=entry("blocked", "settlement", 40, id=SECOND),
        ),
        together(
            "update block set held_cents = 60, covered_cents = 60",
            step(40, "taken", SECOND),
            then=entry("blocked", "settlement", 40, id=SECOND),
        ),
        # Taken money needs a return by the institution.
        together(LOWERED, step(40, "taken", SECOND), then=TAKEN),
        together(LOWERED, step(40, "taken", SECOND, refund_id=777), then=TAKEN),
        together(LOWERED, step(40, "released", SECOND), then=TAKEN),
        together(LOWERED, step(40, "released", SECOND, refund_id=777), then=back),
        "update balance set blocks_count = 0",
        "update balance set blocked_cents = 0",
        "update block set kind = 'security'",
        "update block set holder_id = 2",
        "update block_step set amount_cents = 1",
        "delete from block_step",
        "delete from block",
        "truncate block cascade",
    ):
        await refuse(attacker, odd)
    await attempt(attacker, together(LOWERED, step(40, "released", SECOND), then=back))
    await check_books(service)


async def test_a_block_ends_once(attacker: Connection, service: Service) -> None:
    await attempt(attacker, block(0, 0, wanted_cents=5))
    await attempt(attacker, "update block set wanted_cents = 0, state = 'ended'")
    for odd in ("update block set state = 'open'", "update block set wanted_cents = 5, state = 'open'"):
        await refuse(attacker, odd)
    await refuse(attacker, block(0, 0))
    await open_holder(service, account_number="2")
    await check_books(service)
