"""SQL about an institution's refund that the service's login cannot execute."""

from kernel.tables.test_block_rows import LOWERED, block, step, together
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.report import take_reports
from pixconnect.platform.pool import Connection
from support.attacker import attempt, entry, refuse
from support.books import check_books
from support.service import Service, credit_report, decided, infraction_report


async def test_no_later_statement_takes_blocked_money_with_a_refund(attacker: Connection, service: Service) -> None:
    paid = credit_report(service)
    await receive_credit(service.context, paid)
    contest = infraction_report(service, paid.end_to_end_id, held_cents=0)
    # The institution has blocked nothing, so the refund takes available money.
    await take_reports(service.context, [contest, decided(service, contest, 40, rest_cents=60)])
    refund_id = await attacker.fetchval("select id from refund")
    await attempt(attacker, together(block(), step()))
    await attempt(attacker, "update block set transfer_id = (select id from transfer) where id = 7")
    # An id that nothing has, below the refund's entry: as if the step came first.
    spare = 2
    gone = entry("blocked", "available", 40, id=spare, cause_state="taken")
    taken = together(f"{LOWERED} where id = 7", step(40, "taken", spare, refund_id), then=gone)
    await refuse(attacker, taken)
    await refuse(attacker, "savepoint s", taken)
    await check_books(service)
