"""An institution in this process, which gives prepared answers and uses the test's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import date, datetime
from typing import Any, Final, Literal

from msgspec import structs

from pixconnect.features.institutions.rules import institution as institutions
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.rules.account_file import AccountDescription
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentReturns, name_payee
from pixconnect.features.institutions.rules.sweep import Contests
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import WaitsFor
from support.records import OUTSIDE_ISPB
from support.service import FakeClock

OWNER_TAX_ID = "12345678000195"
LOST_BEFORE: Final = institutions.UnknownOutcome(reason="the connection broke while we asked")
LOST_AFTER: Final = institutions.UnknownOutcome(reason="the connection broke before the answer")
REFUSED_BY_TEXT: Final = institutions.UnknownOutcome(reason="A chave Pix não foi encontrada.", is_refusal=True)
REFUSED_AND_DONE: Final = institutions.UnknownOutcome(reason="Já existe", is_refusal=True)


class FakeInstitution:
    """An account: received Pix, opened charges, and prepared answers. Its clock dates the charges."""

    def __init__(self, clock: FakeClock, traits: institutions.InstitutionTraits | None = None) -> None:
        self._clock = clock
        self.traits = traits or institutions.InstitutionTraits()
        self.balance_cents = 0
        self.received: list[institutions.ReceivedPix] = []
        self.charges: dict[str, institutions.OpenedCharge] = {}
        self.answers: list[institutions.OpeningAnswer] = []
        """For the next calls that open, revise or remove a charge. A lost answer does not prevent opening."""
        self.loses_answers = False
        self.makes_txids = False
        self.is_reachable = True
        self.page_size = 100
        self.lists: list[tuple[datetime, datetime, bool]] = []
        self.calls: list[str] = []
        self.webhooks: list[institutions.Webhook] = []
        self.refunds: dict[tuple[str, str], institutions.ListedRefund] = {}
        self.refund_answers: list[institutions.RefundAnswer] = []
        """For the next refunds. An unknown refund is made unless it was ``LOST_BEFORE``."""
        self.refund_status: Literal["under_way", "returned", "refused"] = "returned"  # for questions about refunds
        self.given_back_cents = 0
        self.sent: dict[str, SentPix] = {}
        self.send_answers: list[institutions.SendAnswer] = []  # for the next transfers; as ``refund_answers``
        self.send_status: Literal["under_way", "settled", "refused"] = "settled"
        self.waits_for: WaitsFor | None = None  # for transfers that are under way
        self.told_payee: Party | None = None  # the payee that it returns for transfers from now on
        self.paid: list[OutgoingPix] = []  # the accepted transfers, in order
        self.paid_cents = 0  # the cents that left the account by Pix; a double payment counts twice
        self.tells_codes = False
        """Whether a sent Pix gets the institution's own code, returned with the answer and, if ``is_listed``, by a list with
        our name.
        """
        self.is_listed = True
        self.forgets_names = False
        self.not_after: list[float | None] = []  # the deadlines of calls that send
        self.asked: list[str | None] = []  # the codes by which sent Pix were asked for
        self.items: list[institutions.InstitutionItem] = []
        self.day_files: institutions.DayFiles | None = None
        self.contests: Contests | None = None
        self.sent_returns: SentReturns | None = None
        self.closing_balances: dict[date, int] = {}
        self.before_answer: Callable[[], Any] | None = None

    def receive(self, pix: institutions.ReceivedPix) -> None:
        self.received.append(pix)
        self.balance_cents += pix.amount_cents

    async def open_charge(self, terms: institutions.ChargeTerms) -> institutions.OpeningAnswer:
        self.calls.append(f"open {terms.txid}")
        if self.before_answer is not None:
            await self.before_answer()
        if self.answers:
            answer = self.answers.pop(0)
            if self.loses_answers:
                self._open(terms)
            return answer
        return self._open(terms)

    def _open(self, terms: institutions.ChargeTerms) -> institutions.OpenedCharge:
        return self.charges.setdefault(
            terms.txid,
            institutions.OpenedCharge(
                txid=terms.txid,
                network_txid=f"there{len(self.charges)}" if self.makes_txids else None,
                key=terms.key,
                amount_cents=terms.amount_cents,
                status="active",
                created_at=self._clock.real_now(),
                lifetime_s=terms.lifetime_s,
                due=terms.due,
                code=br_code.format_dynamic_br_code(f"pix.example/{terms.txid}", "Loja", "Sao Paulo"),
                location=f"pix.example/{terms.txid}",
            ),
        )

    async def read_charge(self, txid: str, *, has_due_date: bool = False) -> institutions.OpenedCharge | None:
        self._check()
        self.calls.append(f"read {txid}")
        found = self.charges.get(txid)
        return found if found is not None and (found.due is not None) == has_due_date else None

    async def revise_charge(self, terms: institutions.ChargeTerms) -> institutions.OpeningAnswer:
        self.calls.append(f"revise {terms.txid}")
        return await self._change(
            terms.txid, amount_cents=terms.amount_cents, key=terms.key, lifetime_s=terms.lifetime_s, due=terms.due
        )

    async def remove_charge(self, txid: str, *, has_due_date: bool = False) -> institutions.OpeningAnswer:
        self.calls.append(f"remove {txid}")
        assert (self.charges[txid].due is not None) == has_due_date, "each kind has its own path"
        return await self._change(txid, status="removed_by_us")

    async def _change(self, txid: str, **members: Any) -> institutions.OpeningAnswer:
        if self.before_answer is not None:
            await self.before_answer()
        answer = self.answers.pop(0) if self.answers else None
        found = self.charges[txid]
        if answer is None or self.loses_answers:
            self.charges[txid] = structs.replace(found, revision=found.revision + 1, **members)
        return answer or self.charges[txid]

    async def list_received(
        self, since: datetime, until: datetime, *, only_returned: bool = False
    ) -> AsyncIterator[Sequence[institutions.ReceivedPix]]:
        self._check()
        self.lists.append((since, until, only_returned))
        found = [pix for pix in self.received if since <= pix.settled_at <= until and (pix.refunds or not only_returned)]
        for start in range(0, len(found), self.page_size):
            self._check()
            yield found[start : start + self.page_size]

    async def read_received(self, end_to_end_id: str) -> institutions.ReceivedPix | None:
        self._check()
        return next((pix for pix in self.received if pix.end_to_end_id == end_to_end_id), None)

    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> institutions.RefundAnswer:
        self.calls.append(f"refund {refund_id}")
        if self.before_answer is not None:
            await self.before_answer()
        answer = self.refund_answers.pop(0) if self.refund_answers else None
        if isinstance(answer, institutions.CertainRefusal | institutions.NotSent) or answer is LOST_BEFORE:
            return answer
        name = end_to_end_id, refund_id
        # Without a promise to recognise a name, it makes another refund.
        if name not in self.refunds or not self.traits.repeats_refunds:
            self.refunds[name] = self._give_back(refund_id, amount_cents)
        return answer or self.refunds[name]

    def _give_back(self, refund_id: str, amount_cents: int) -> institutions.ListedRefund:
        now = self._clock.real_now()
        if self.refund_status != "refused":
            self.given_back_cents += amount_cents
            self.balance_cents -= amount_cents
        return institutions.ListedRefund(
            id=refund_id,
            return_id=f"D{OUTSIDE_ISPB}202607011500{len(self.calls):011}",
            amount_cents=amount_cents,
            status=self.refund_status,
            asked_at=now,
            settled_at=now if self.refund_status == "returned" else None,
            reason="Negado por timeout" if self.refund_status == "refused" else None,
        )

    def end_refunds(self, status: Literal["returned", "refused"]) -> None:
        now = self._clock.real_now()
        for name, refund in self.refunds.items():
            if refund.status == "under_way":
                self.refunds[name] = structs.replace(refund, status=status, settled_at=now)
                if status == "refused":
                    self.given_back_cents -= refund.amount_cents
                    self.balance_cents += refund.amount_cents

    async def read_refund(self, end_to_end_id: str, refund_id: str) -> institutions.ListedRefund | None:
        self._check()
        return self.refunds.get((end_to_end_id, refund_id))

    async def send(self, pix: OutgoingPix) -> institutions.SendAnswer:
        self.calls.append(f"send {pix.name}")
        self.not_after.append(pix.not_after_s)
        if self.before_answer is not None:
            await self.before_answer()
        answer = self.send_answers.pop(0) if self.send_answers else None
        if isinstance(answer, institutions.CertainRefusal | institutions.NotSent) or answer in (
            LOST_BEFORE,
            REFUSED_BY_TEXT,
        ):
            return answer
        is_known = pix.name in self.sent and not self.forgets_names
        if is_known and self.traits.resend_for and not self.tells_codes:
            return answer or institutions.UnknownOutcome(reason="the name was used")
        if not is_known or not self.tells_codes:
            self.sent[pix.name] = self._pay(pix)
            self.paid.append(pix)
        sent = self.sent[pix.name]
        if self.tells_codes:
            sent = structs.replace(sent, status="under_way", end_to_end_id=None, settled_at=None, payee=None)
        return answer or sent

    def _pay(self, pix: OutgoingPix) -> SentPix:
        if self.send_status != "refused":
            self.paid_cents += pix.amount_cents
            self.balance_cents -= pix.amount_cents
        return SentPix(
            name=pix.name,
            code=f"code-{len(self.calls)}" if self.tells_codes else None,
            end_to_end_id=f"E{OUTSIDE_ISPB}202607011500{len(self.calls):011}",
            amount_cents=pix.amount_cents,
            status=self.send_status,
            settled_at=self._clock.real_now() if self.send_status == "settled" else None,
            payee=name_payee(pix.payee, is_by_key=pix.is_by_key),
            paid=self.told_payee,
            waits_for=self.waits_for if self.send_status == "under_way" else None,
        )

    def end_sent(self, status: Literal["settled", "refused"]) -> None:
        now = self._clock.real_now()
        for name, sent in self.sent.items():
            if sent.status == "under_way":
                self.sent[name] = structs.replace(sent, status=status, settled_at=now if status == "settled" else None)
                if status == "refused":
                    self.paid_cents -= sent.amount_cents or 0
                    self.balance_cents += sent.amount_cents or 0

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        self._check()
        self.asked.append(code)
        found = self.sent.get(name)
        return None if self.tells_codes and code is None and not self.is_listed else found

    async def read_balance(self) -> int:
        self._check()
        return self.balance_cents

    async def read_closing_balance(self, day: date) -> int | None:
        self._check()
        return self.closing_balances.get(day)

    async def list_statement(self, since: date, until: date) -> AsyncIterator[Sequence[institutions.InstitutionItem]]:
        self._check()
        yield [item for item in self.items if since <= item.day <= until]

    async def list_webhooks(self) -> Sequence[institutions.Webhook]:
        self._check()
        return list(self.webhooks)

    async def set_webhook(self, key: str, url: str) -> None:
        self._check()
        self.calls.append(f"webhook {key}")
        has_one = self.traits.has_webhook_per_key
        self.webhooks = [each for each in self.webhooks if not has_one or each.key != key]
        self.webhooks.append(institutions.Webhook(key=key if has_one else None, url=url))
        self._lose()

    async def remove_webhook(self, key: str, url: str) -> None:
        self._check()
        self.webhooks = [each for each in self.webhooks if each.url != url]
        self._lose()

    async def check(self, keys: Sequence[str]) -> Sequence[institutions.PermissionTried]:
        self._check()
        return [institutions.PermissionTried(name="cob.write", is_given=True)]

    async def close(self) -> None:
        return None

    def _lose(self) -> None:
        if self.loses_answers:
            raise institutions.InstitutionUnavailable("the answer was lost")

    def _check(self) -> None:
        if not self.is_reachable:
            raise institutions.InstitutionUnavailable("it is away")

    def open(self, account: InstitutionAccount, credential: Credential) -> FakeInstitution:
        return self


def a_description(**changes: Any) -> AccountDescription:
    said = AccountDescription(
        kind="standard",
        profile="bb",
        environment="counterpart",
        tax_id=OWNER_TAX_ID,
        base_url="https://127.0.0.1:8105",
        token_url="",
        authorities="",
        account="",
        keys=["loja@test.example"],
        poll_s=15,
        options={},
        receiving=Credential(client_id="us", client_secret="not to be seen"),
        sending=None,
    )
    return structs.replace(said, **changes)
