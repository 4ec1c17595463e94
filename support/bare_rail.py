"""A rail over the sandbox without optional abilities, as the interface of a bank may be.

Each try gets a new id from which ours can be derived, so it remembers nothing, and a retry pays twice. It returns that
id with the answer or only with the report, accepts no refusal, and makes full refunds only.
"""

import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from msgspec import structs

from pixconnect.features.sandbox import rail as rail_sandbox
from pixconnect.features.sandbox.rail import SandboxConnection, SandboxRail
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules.rail import Message, MessageAnswer, MessageKind

OUR_ISPB = "99999003"


class BareRail:
    abilities = rails.Abilities(
        refuses_credits=False, refunds_partly=False, resolves_keys=False, issues_codes=False, answers_by_our_id=False,
        keeps_our_id=False, contests="none", defence_length_max=0,
    )  # fmt: skip

    def __init__(self, connection: SandboxConnection) -> None:
        self._rail = SandboxRail(connection)
        self._received: dict[str, int] = {}

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> rails.DirectoryEntry | None:
        raise rails.RailUnavailable("this rail has no directory")

    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        names = [make_name(order.end_to_end_id) for order in orders]
        answers = await self._rail.submit(
            [structs.replace(order, end_to_end_id=name) for order, name in zip(orders, names, strict=True)]
        )
        return [_tell(name, answer) for name, answer in zip(names, answers, strict=True)]

    async def submit_refunds(self, orders: Sequence[rails.RefundOrder]) -> list[rails.SubmitAnswer]:
        """Submit full refunds, and reject the others."""
        names = [make_name(order.return_id) for order in orders]
        whole = [
            structs.replace(order, return_id=name)
            for order, name in zip(orders, names, strict=True)
            if self._received.get(order.original_end_to_end_id, order.amount_cents) == order.amount_cents
        ]
        answers = dict(zip((order.return_id for order in whole), await self._rail.submit_refunds(whole), strict=True))
        part = rails.Rejected(code="AM09", reason="only all of it can be returned")
        return [_tell(name, answers.get(name, part)) for name in names]

    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        # It does not know our ids.
        ours = [order_id[1:9] == OUR_ISPB for order_id in ids]
        theirs = [order_id for order_id, is_ours in zip(ids, ours, strict=True) if not is_ours]
        if not theirs:
            await self._rail.check()
        answers = iter(await self._rail.query(theirs))
        return [rails.Unknown() if is_ours else next(answers) for is_ours in ours]

    async def send(self, kind: MessageKind[Message, MessageAnswer], messages: Sequence[Message]) -> list[MessageAnswer]:
        return [kind.unknown for _ in messages]

    async def reports(self, wait_s: float) -> list[rails.Report]:
        reports = await self._rail.reports(wait_s)
        self._received.update(
            {report.end_to_end_id: report.amount_cents for report in reports if isinstance(report, rails.CreditReport)}
        )
        return [
            structs.replace(report, id=read_name(report.id), network_id=report.id)
            if isinstance(report, rails.SettledReport | rails.RejectedReport)
            else report
            for report in reports
        ]

    async def waiting_since(self) -> datetime | None:
        return await self._rail.waiting_since()

    async def acknowledge(self, acknowledgements: Sequence[rails.Acknowledgement]) -> None:
        await self._rail.acknowledge([rails.Acknowledgement(report_id=one.report_id) for one in acknowledgements])

    def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        return self._rail.statement(since, until)

    async def position(self) -> rails.Position:
        return await self._rail.position()

    async def check(self) -> None:
        await self._rail.check()


def install() -> None:
    """Replace the sandbox's rail if that is set not to answer by our ids; called before the service is assembled."""
    if not SandboxRail.abilities.answers_by_our_id:
        BareRail.abilities = SandboxRail.abilities
        rail_sandbox.SandboxRail = BareRail  # type: ignore[assignment,misc]


def make_name(order_id: str) -> str:
    return f"{order_id[0]}8{secrets.randbelow(10**7):07d}{order_id[9:]}"


def read_name(name: str) -> str:
    return f"{name[0]}{OUR_ISPB}{name[9:]}"


def _tell(name: str, answer: rails.SubmitAnswer) -> rails.SubmitAnswer:
    """Return the order's id in every other answer; the remaining ids come only with reports."""
    match answer:
        case rails.Taken() if ord(name[-1]) % 2:
            return rails.Taken(network_id=name)
        case rails.AlreadyKnown():
            # Each try has its own id, so it can only be too late.
            return rails.Rejected(code="FF08", reason="too late")
        case _:
            return answer
