"""The first page's figures: the day's money in Sao Paulo, for those who may see it, and pending work."""

from pixconnect.features.finding.service import overview
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.refund import start_refund
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, Caller, Viewer
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.platform.base.clock import SAO_PAULO
from support.service import Service, credit_report, open_holder, read_funds, send_out

ALL = Viewer(holder_id=None, scopes=frozenset(SCOPES))


async def _send(service: Service, caller: Caller, cents: int, *, settles: bool) -> None:
    transfer = await send_out(service, caller, cents)
    end = Settled(settled_at=service.clock.now()) if settles else Rejected(code="AC03", reason="no such account")
    await end_orders(service.context, [(transfer.end_to_end_id, end)])


async def test_the_money_of_the_day_begins_at_midnight_in_sao_paulo(service: Service, caller: Caller) -> None:
    before, _ = await read_funds(service, caller)
    await receive_credit(service.context, credit_report(service, amount_cents=700))
    now = service.clock.now().astimezone(SAO_PAULO)
    service.clock.advance(hours=24 - now.hour, minutes=-now.minute)
    (quiet,) = await overview.read_money(service.context, ALL, [caller.holder_id])
    assert (quiet.available_cents, quiet.in_cents, quiet.out_cents) == (before + 700, 0, 0)
    assert (quiet.in_yesterday_cents, quiet.out_yesterday_cents, quiet.is_yesterday_cut) == (700, 0, False)
    paid = credit_report(service, amount_cents=300)
    await receive_credit(service.context, paid)
    refund = await start_refund(service.context, caller, RefundRequest(end_to_end_id=paid.end_to_end_id, amount_cents=80))
    await end_orders(service.context, [(refund.return_id, Settled(settled_at=service.clock.now()))])
    await _send(service, caller, 120, settles=True)
    await _send(service, caller, 999, settles=False)
    (money,) = await overview.read_money(service.context, ALL, [caller.holder_id])
    assert (money.in_cents, money.other_in_cents, money.is_cut) == (300, 0, False)
    assert (money.out_cents, money.back_cents, money.back_yesterday_cents) == (120, 80, 0)
    assert money.available_cents == before + 700 + 300 - 80 - 120


async def test_only_so_many_lines_are_added_up(service: Service, caller: Caller) -> None:
    for cents in (1, 20, 300, 4000):
        await receive_credit(service.context, credit_report(service, amount_cents=cents))
    (money,) = await overview.read_money(service.context, ALL, [caller.holder_id], lines_max=2)
    assert money.is_cut
    assert money.in_cents == 20 + 300 + 4000


async def test_nobody_sees_money_that_is_not_theirs(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    own = Viewer(holder_id=caller.holder_id, scopes=frozenset(SCOPES))
    both = [caller.holder_id, other.holder_id]
    assert [each.holder_id for each in await overview.read_money(service.context, ALL, both)] == sorted(both)
    assert [each.holder_id for each in await overview.read_money(service.context, own, both)] == [caller.holder_id]
    blind = Viewer(holder_id=None, scopes=frozenset({"charge.read"}))
    assert await overview.read_money(service.context, blind, both) == []
