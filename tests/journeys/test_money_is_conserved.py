"""A state machine pays, is paid, refunds, contests, breaks the rail, moves the clock and kills; no cent may be lost.

A few examples here; ``make prove`` runs PIXCONNECT_PROVE_EXAMPLES, each of PIXCONNECT_PROVE_STEPS steps.
"""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import count
from typing import Any, ClassVar, Final, Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs

from pixconnect.features.due_charges.rules.day_amount import compute_amount
from pixconnect.kernel.rules.charge_contents import DueTerms, Fine, Interest, Rebate
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.platform.base.clock import SAO_PAULO
from support.both_sides import Kind, Seen, Thing
from support.killed_process import POINTS
from support.money_model import ANY_ENDING, Asked, MoneyModel
from support.state_machine import run_examples
from support.whole_installation import Account, Answer, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long]

EXAMPLES_COUNT = int(os.environ.get("PIXCONNECT_PROVE_EXAMPLES", "4"))
STEPS_COUNT = int(os.environ.get("PIXCONNECT_PROVE_STEPS", "12"))
IS_PROOF = "PIXCONNECT_PROVE_EXAMPLES" in os.environ

FUNDS_CENTS = 10_000
OUTSIDE = {"settle": "CONFIRMED", "slow": "CONFIRMED", "silent": "CONFIRMED", "lost": "ERROR", "reject-ac07": "ERROR"}
OUTSIDE_ACCOUNTS = {"1001": "CONFIRMED", "1003": "CONFIRMED", "1004": "ERROR", "2001": "ERROR"}
EFFECTS = (
    *("no_answer", "lost", "duplicate_answer", "out_of_order", "unavailable", "delay:700", "reject:AB03"),
    *("delay:20000", "delay:90000", "two_steps:300", "two_steps:40000", "cancel:AB03:300", "fee:3", "dated_back:7200"),
    *("suspect:release:300", "suspect:return:300", "suspect:release:40000"),
)
OPERATIONS = ("submit", "query", "refund", "return", "payment", "lookup")
PARTS = ("serve", "work", "sandbox", "database")
ADVANCES_S = (1, 70, 3_600, 25 * 3_600, 2 * 86_400)
"""A second; past the time for handing over; ...; past a charge's life; ..."""
CHANGES: Final[dict[str, dict[str, Any]]] = {
    "amount": {},
    "expiry": {"calendario": {"expiracao": 40 * 86_400}},
    "short expiry": {"calendario": {"expiracao": 1}},
    "location": {},
    "unbind": {},
    "remove": {"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"},
}
VALUE_OF_DAYS: Final = {
    "multa": {"modalidade": 2, "valorPerc": "2.00"},
    "juros": {"modalidade": 1, "valorPerc": "0.03"},
    "abatimento": {"modalidade": 1, "valorPerc": "0.50"},
}
FINE, REBATE = Fine(kind="percentage", value=200), Rebate(kind="sum", value=50)
INTEREST: Final = Interest(kind="sum_a_day", value=3)
COB_STATUSES: Final = {
    **dict.fromkeys(("PENDING", "EXPIRED"), "ATIVA"),
    **dict.fromkeys(("APPROVED", "RETURNED"), "CONCLUIDA"),
    "REMOVED_BY_RECEIVER": "REMOVIDA_PELO_USUARIO_RECEBEDOR",
}
A_BANK: Final = Abilities(refuses_credits=False, refunds_partly=False, resolves_keys=False, keeps_our_id=False)
"""The abilities of another kind of rail: unacceptable payments are returned, and ids come early or late."""

cents = st.integers(min_value=1, max_value=4_000)
sides = st.integers(min_value=0, max_value=1)
picks = st.integers(min_value=0, max_value=1_000)


def reais(amount_cents: int) -> str:
    return f"{amount_cents // 100}.{amount_cents % 100:02d}"


class Tally:
    """What was done, for the report at the end."""

    examples_count = 0
    steps_count = 0
    owed_count = 0  # the number of looks with a debt
    blocked_count = 0  # the number of looks with blocked money
    requests: ClassVar[Counter[str]] = Counter()
    refusals: ClassVar[Counter[str]] = Counter()
    kills: ClassVar[Counter[str]] = Counter()

    @classmethod
    def tell(cls) -> str:
        return (
            f"{cls.examples_count} examples, {cls.steps_count} steps, {sum(cls.kills.values())} kills survived, "
            f"{cls.owed_count} times somebody owed, {cls.blocked_count} times something was blocked\n"
            f"asked: {dict(cls.requests.most_common())}\nkills: {dict(cls.kills.most_common())}\n"
            f"refusals: {dict(cls.refusals.most_common())}"
        )


class Money(RuleBasedStateMachine):
    """Two holders, the outside, and a model of their money."""

    service: ClassVar[WholeInstallation]
    abilities: ClassVar[Abilities]
    numbers: ClassVar[Iterator[int]] = count(1)

    @initialize(is_patient=st.booleans())
    def open_two_accounts(self, is_patient: bool) -> None:
        self.is_patient = is_patient
        self.accounts = (self.service.open_account(FUNDS_CENTS), self.service.open_account())
        self.model = MoneyModel(deposits={self.accounts[0].holder_id: Counter([FUNDS_CENTS])})
        self.bodies: list[tuple[Asked, str, dict[str, object]]] = []
        self.codes: list[tuple[Account, str, int]] = []
        self.cobs: list[tuple[Account, Asked]] = []
        self.cobvs: list[tuple[Account, Asked, DueTerms, str]] = []
        self.armed: list[str] = []
        self.given_back: Counter[str] = Counter()
        self.contested: set[str] = set()
        self.is_calm = True
        self.seen = self.service.see(self.accounts)
        Tally.examples_count += 1

    @rule(side=sides, amount_cents=cents)
    def deposit(self, side: int, amount_cents: int) -> None:
        holder_id = self.accounts[side].holder_id
        answer = self.ask(side, "/sandbox/v1/deposits", {"amount": amount_cents})
        if answer is not None and answer.status == 200:
            self.model.deposits.setdefault(holder_id, Counter())[amount_cents] += 1
        elif answer is None or answer.status == 504:
            self.model.maybe_deposits.setdefault(holder_id, Counter())[amount_cents] += 1

    @rule(side=sides, amount_cents=cents)
    def create_charge(self, side: int, amount_cents: int) -> None:
        account = self.accounts[side]
        answer = self.request("charge", side, "/v1/connect/charge", amount_cents, set(ANY_ENDING["charge"]), key=account.key)
        assert answer.status == 200, answer
        self.codes.append((account, answer.data["emvqrcps"], amount_cents))

    @rule(side=sides, amount_cents=cents, is_free=st.booleans())
    def put_cob(self, side: int, amount_cents: int, is_free: bool) -> None:
        """Create a charge by the central bank's API under a txid of the caller, and read it by our own."""
        account, txid = self.accounts[side], f"statemachine{next(self.numbers):016}"
        asked = Asked(
            kind="charge", holder_id=account.holder_id, external_id=txid, amount_cents=amount_cents,
            endings=set(ANY_ENDING["charge"]), is_free=is_free,
        )  # fmt: skip
        self.model.ask(asked)
        value = {"original": reais(amount_cents), "modalidadeAlteracao": int(is_free)}
        answer = self.service.insist(account, "PUT", f"/v2/cob/{txid}", {"valor": value, "chave": account.key})
        assert answer.status == 201, answer
        Tally.requests["put cob"] += 1
        shown = self.service.insist(account, "GET", f"/v1/connect/charge/txid/{txid}")
        assert (shown.data["external_id"], shown.data["amount"]) == (txid, amount_cents), shown
        assert shown.data["emvqrcps"] == answer.body["pixCopiaECola"]
        asked.told_id = shown.data["id"]
        self.cobs.append((account, asked))

    @rule(side=sides, amount_cents=st.integers(min_value=200, max_value=4_000), days=st.integers(1, 2))
    def put_cobv(self, side: int, amount_cents: int, days: int) -> None:
        """Create a charge with a due date in a day or two, an amount for each day, and an end within days."""
        account, txid = self.accounts[side], f"statemachine{next(self.numbers):016}"
        asked = Asked(
            kind="charge",
            holder_id=account.holder_id,
            external_id=txid,
            amount_cents=amount_cents,
            endings=set(ANY_ENDING["charge"]),
            # Its amount depends on the day.
            is_free=True,
        )
        self.model.ask(asked)
        due_on = self.today() + timedelta(days=days)
        body = {
            "calendario": {"dataDeVencimento": due_on.isoformat(), "validadeAposVencimento": 1},
            "devedor": {"cpf": "12345678909", "nome": "Joana Prado"},
            "valor": {"original": reais(amount_cents), **VALUE_OF_DAYS},
            "chave": account.key,
        }
        answer = self.service.insist(account, "PUT", f"/v2/cobv/{txid}", body)
        assert answer.status == 201, answer
        Tally.requests["put cobv"] += 1
        terms = DueTerms(due_on=due_on, valid_days=1, fine=FINE, interest=INTEREST, rebate=REBATE)
        asked.told_id = self.service.insist(account, "GET", f"/v1/connect/charge/txid/{txid}").data["id"]
        self.cobvs.append((account, asked, terms, answer.body["pixCopiaECola"]))

    @rule(pick=picks, extra_cents=st.sampled_from((0, 0, 1)), is_by_book=st.booleans())
    def pay_cobv(self, pick: int, extra_cents: int, is_by_book: bool) -> None:
        """Pay today's amount, or a cent more, from outside or as the other holder."""
        if not self.cobvs:
            self.put_cobv(pick % 2, 200 + pick, 1 + pick % 2)
        account, asked, terms, emv = self.cobvs[pick % len(self.cobvs)]
        paid_cents = compute_amount(terms, asked.amount_cents, self.today()).total_cents + extra_cents
        side = self.accounts.index(account)
        if is_by_book:
            way = "/v1/connect/transfer/qrcode"
            answer = self.request("transfer", 1 - side, way, paid_cents, {"CONFIRMED", "ERROR"}, emv=emv)
            assert not extra_cents or answer.status != 200 or answer.data["status"] == "ERROR", answer
            return
        taken = self.ask(side, "/sandbox/v1/payments", {"emv": emv, "amount": paid_cents})
        is_taken = taken is not None and taken.status == 200 and taken.data["status"] == "CONFIRMED"
        Tally.requests[f"pay cobv {'taken' if is_taken else 'not taken'}"] += 1
        assert not (extra_cents and is_taken and self.abilities.refuses_credits)

    def today(self) -> date:
        clock = self.service.insist(self.accounts[0], "GET", "/sandbox/v1/clock")
        return datetime.fromisoformat(clock.data["now"]).astimezone(SAO_PAULO).date()

    @rule(pick=picks, change=st.sampled_from(sorted(CHANGES)), amount_cents=cents)
    def change_cob(self, pick: int, change: str, amount_cents: int) -> None:
        account, asked = self.any_cob(pick)
        path = f"/v2/cob/{asked.external_id}"
        body: dict[str, Any] = dict(CHANGES[change])
        if change == "amount":
            body = {"valor": {"original": reais(amount_cents)}}
        elif change == "location":
            made = self.service.insist(account, "POST", "/v2/loc", {"tipoCob": "cob"})
            body = {"loc": {"id": made.body["id"]}}
        elif change == "unbind":
            location = self.service.insist(account, "GET", path).body.get("loc")
            if location is not None:
                self.service.insist(account, "DELETE", f"/v2/loc/{location['id']}/txid")
            return
        before = self.service.insist(account, "GET", path).body
        answer = self.service.insist(account, "PATCH", path, body)
        after = self.service.insist(account, "GET", path).body
        Tally.requests[f"patch cob {change}"] += 1
        # A refused change was too late, or the charge was held by a payment, or removed by a request whose answer was
        # lost.
        assert answer.status in {200, 400}, answer
        assert answer.status == 200 or before["status"] != "ATIVA" or change == "remove" or not self.is_calm, answer
        assert after["revisao"] - before["revisao"] in {0, 1}
        if answer.status == 200 and change == "amount":
            asked.amount_cents = amount_cents

    @rule(pick=picks, extra_cents=st.sampled_from((0, 0, 1)))
    def pay_cob(self, pick: int, extra_cents: int) -> None:
        account, asked = self.any_cob(pick)
        shown = self.service.insist(account, "GET", f"/v2/cob/{asked.external_id}").body
        if "pixCopiaECola" not in shown:
            return
        body: dict[str, object] = {"emv": shown["pixCopiaECola"], "amount": asked.amount_cents + extra_cents}
        answer = self.ask(self.accounts.index(account), "/sandbox/v1/payments", body)
        is_taken = answer is not None and answer.status == 200 and answer.data["status"] == "CONFIRMED"
        assert not (extra_cents and is_taken and self.abilities.refuses_credits and not asked.is_free)

    @rule(pick=picks, is_wrong=st.sampled_from((False, False, True)))
    def pay_charge(self, pick: int, is_wrong: bool) -> None:
        account, emv, amount_cents = self.any_code(pick)
        paid_cents = amount_cents + is_wrong
        answer = self.ask(self.accounts.index(account), "/sandbox/v1/payments", {"emv": emv, "amount": paid_cents})
        is_taken = answer is not None and answer.status == 200 and answer.data["status"] == "CONFIRMED"
        # A payment that cannot be refused is accepted and returned.
        assert not (is_wrong and is_taken and self.abilities.refuses_credits)

    @rule(side=sides, amount_cents=cents)
    def be_paid(self, side: int, amount_cents: int) -> None:
        answer = self.ask(side, "/sandbox/v1/payments", {"key": self.accounts[side].key, "amount": amount_cents})
        if self.is_calm:
            assert answer is not None
            assert answer.data["status"] in {"CONFIRMED", "PROCESSING"}, answer
            if answer.data["status"] == "PROCESSING":
                # The payer does not wait long; on a busy machine the payment arrives a little later.
                self.settle()
                name = answer.data["end_to_end_id"]
                assert any(thing.name == name and thing.is_settled for thing in self.seen.things), answer

    @rule(side=sides, amount_cents=cents, payee=st.sampled_from(sorted(OUTSIDE)))
    def transfer_by_key(self, side: int, amount_cents: int, payee: str) -> None:
        body = {"key": f"{payee}@sandbox.pix.example", "key_type": "EMAIL"}
        answer = self.transfer(side, "key", amount_cents, OUTSIDE[payee], **body)
        assert answer.status != 200 or self.abilities.resolves_keys, answer

    @rule(side=sides, amount_cents=cents, number=st.sampled_from(sorted(OUTSIDE_ACCOUNTS)))
    def transfer_by_account(self, side: int, amount_cents: int, number: str) -> None:
        party = {"account_number": number, "account_type": "CHECKING", "branch": "0001", "ispb": "99999004"}
        party |= {"name": "Joana Prado", "tax_id": "12345678909"}
        self.transfer(side, "manual", amount_cents, OUTSIDE_ACCOUNTS[number], credit_party=party)

    @rule(side=sides, amount_cents=cents, kind=st.sampled_from(("static", "dynamic")))
    def transfer_by_qr_code(self, side: int, amount_cents: int, kind: str) -> None:
        made = self.ask(side, "/sandbox/v1/qrcodes", {"kind": kind, "amount": amount_cents})
        if made is None or made.status != 200:
            return
        wrong = self.transfer(side, "qrcode", amount_cents + 1, "ERROR", emv=made.data["emv"])
        assert wrong.status != 200
        self.transfer(side, "qrcode", amount_cents, "CONFIRMED", emv=made.data["emv"])

    @rule(side=sides, amount_cents=cents)
    def transfer_by_book(self, side: int, amount_cents: int) -> None:
        self.transfer(side, "key", amount_cents, "CONFIRMED", key=self.accounts[1 - side].key, key_type="EMAIL")

    @rule(pick=picks)
    def pay_charge_by_book(self, pick: int) -> None:
        account, emv, amount_cents = self.any_code(pick)
        side = 1 - self.accounts.index(account)
        answer = self.request("transfer", side, "/v1/connect/transfer/qrcode", amount_cents, {"CONFIRMED", "ERROR"}, emv=emv)
        assert answer.status != 200 or answer.data["status"] in {"CONFIRMED", "RETURNED", "ERROR"}

    @rule(pick=picks, part=st.sampled_from((1, 2, 3)), is_too_much=st.booleans())
    def refund(self, pick: int, part: int, is_too_much: bool) -> None:
        original = self.any_settled("IN", pick)
        if original is None:
            self.be_paid(pick % 2, 1 + pick)
            return
        amount_cents = original.amount_cents + 1 if is_too_much else -(-original.amount_cents // part)
        side = self.side_of(original)
        calm = {"RETURNED"} if self.is_calm or original.is_book else set(ANY_ENDING["refund"])
        if original.is_book:
            calm.add("ERROR")
        answer = self.request("refund", side, "/v1/connect/refund", amount_cents, calm, end_to_end_id=original.name)
        assert answer.status != 200 or not is_too_much, answer
        is_whole = original.is_book or amount_cents == original.amount_cents
        assert answer.status != 200 or is_whole or self.abilities.refunds_partly, answer

    @rule(pick=picks, part=st.sampled_from((1, 2, 3)), extra_cents=st.sampled_from((0, 0, 1)))
    def be_given_back(self, pick: int, part: int, extra_cents: int) -> None:
        sent = self.any_settled("OUT", pick)
        if sent is None:
            self.transfer_by_account(pick % 2, 1 + pick, "1001")
            return
        amount_cents = -(-sent.amount_cents // part) + extra_cents
        self.given_back[sent.name] += amount_cents
        # If it cannot be refused, the excess waits for an operator, and the books differ until then.
        if self.given_back[sent.name] > sent.amount_cents and not self.abilities.refuses_credits:
            return
        self.ask(self.side_of(sent), "/sandbox/v1/returns", {"end_to_end_id": sent.name, "amount": amount_cents})

    @rule(pick=picks, is_changed=st.booleans())
    def replay(self, pick: int, is_changed: bool) -> None:
        if not self.bodies:
            return
        asked, path, body = self.bodies[pick % len(self.bodies)]
        side = 0 if asked.holder_id == self.accounts[0].holder_id else 1
        wanted = body | {"amount": asked.amount_cents + is_changed}
        answer = self.service.insist(self.accounts[side], "POST", path, wanted)
        if is_changed:
            assert answer.code == "EXTERNAL_ID_CONFLICT", answer
        else:
            assert answer.data["id"] == asked.told_id, answer

    @rule(seconds=st.sampled_from(ADVANCES_S))
    def advance_clock(self, seconds: int) -> None:
        if not self.is_calm:
            self.model.disturb()
        self.service.advance_clock(self.accounts[0], seconds)

    @rule(
        effects=st.lists(
            st.tuples(st.sampled_from(EFFECTS), st.sampled_from(OPERATIONS), st.integers(1, 3)), min_size=1, max_size=3
        )
    )
    def break_the_rail(self, effects: list[tuple[str, str, int]]) -> None:
        rules = [
            {"match": {"operation": operation}, "effect": effect, "times": times}
            for effect, operation, times in effects
            if self.is_possible(effect, operation)
        ]
        self.disturb()
        self.service.insist(self.accounts[0], "PUT", "/sandbox/v1/faults", {"rules": rules})

    def is_possible(self, effect: str, operation: str) -> bool:
        if effect.startswith("fee"):
            return operation in ("payment", "submit")
        return not effect.startswith("dated_back") or operation in ("payment", "return")

    @rule(side=sides, amount_cents=cents, direction=st.sampled_from(("IN", "OUT")))
    def be_moved(self, side: int, amount_cents: int, direction: str) -> None:
        body = {"kind": "by_hand", "direction": direction, "amount": amount_cents}
        answer = self.ask(side, "/sandbox/v1/movements", body)
        # Without funds it is refused, or taken all the same and owed.
        taken = {200, 422} if self.abilities.refuses_credits else {200}
        assert answer is None or answer.status in taken or not self.is_calm, answer

    @rule(pick=picks, part=st.sampled_from((1, 2, 3)), judged=st.sampled_from(("by_answer", "by_answer", "never")))
    def be_contested(self, pick: int, part: int, judged: str) -> None:
        """A payer contests all or a part of the rest of a Pix, which may be contested already."""
        original = self.any_settled("IN", pick)
        given_cents = Counter[str]()
        for thing in self.seen.things:
            if thing.kind == "refund" and thing.status != "ERROR":
                given_cents[thing.original or ""] += thing.amount_cents
        if original is None or original.is_book or original.amount_cents == given_cents[original.name]:
            self.be_paid(pick % 2, 1 + pick)
            return
        amount_cents = -(-(original.amount_cents - given_cents[original.name]) // part)
        body = {"end_to_end_id": original.name, "amount": amount_cents, "judged": judged}
        answer = self.ask(self.side_of(original), "/sandbox/v1/infractions", body)
        # An earlier contest takes money there before it is reported here.
        taken = {200, 400} if original.name in self.contested else {200}
        self.contested.add(original.name)
        assert answer is None or answer.status in taken or not self.is_calm, answer

    @rule(pick=picks, act=st.sampled_from(("take", "take", "take a part", "release", "answer")))
    def decide_contest(self, pick: int, act: str) -> None:
        """The institution decides an open contest, or the holder answers it."""
        for account in self.accounts if pick % 2 else self.accounts[::-1]:
            listed = self.service.insist(account, "GET", "/v1/connect/infraction/list?page_size=100").data
            undecided = [each for each in listed if each["status"] in {"OPEN", "ANSWERED"}]
            if undecided:
                break
        else:
            self.be_contested(pick, 1, "by_answer")
            return
        contested, side = undecided[pick % len(undecided)], self.accounts.index(account)
        if act == "answer":
            answer = self.ask(side, f"/v1/connect/infraction/id/{contested['id']}/defence", {"text": "It was delivered"})
            assert answer is None or answer.status == 200 or not self.is_calm, answer
            return
        body: dict[str, object] = {"decision": act.partition(" ")[0]}
        if act == "take a part":
            body["amount"] = 1 + contested["held"] // 2
        Tally.requests[f"decide {act}"] += 1
        # The institution cannot take money from an empty account, and decides by itself when the time is over.
        self.ask(side, f"/sandbox/v1/infractions/{contested['infraction_id']}/decide", body)

    @rule(part=st.sampled_from(PARTS))
    def kill(self, part: Literal["serve", "work", "sandbox", "database"]) -> None:
        self.disturb()
        self.service.kill(part)
        Tally.kills[part] += 1

    @rule(point=st.sampled_from(POINTS))
    def kill_at_point(self, point: str) -> None:
        self.disturb()
        if point not in self.armed:
            self.service.points.arm(point)
            self.armed.append(point)

    @rule()
    def settle(self) -> None:
        self.seen = self.service.settle(self.accounts)
        self.model.check_at_rest(self.seen)
        self.service.check_heard(self.accounts)
        self.check_balances(self.seen)
        self.check_cobs(self.seen)
        self.count_kills()
        self.is_calm = not self.armed

    @invariant()
    def nothing_is_lost_and_nothing_done_twice(self) -> None:
        if not hasattr(self, "seen"):
            return
        Tally.steps_count += 1
        if self.is_patient:
            self.settle()
        else:
            self.seen = self.service.see(self.accounts)
            self.model.check(self.seen)
        Tally.blocked_count += any(self.seen.blocked.values())
        Tally.owed_count += any(owed_cents for _, _, owed_cents in self.seen.balances.values())

    def teardown(self) -> None:
        if hasattr(self, "seen"):
            self.settle()
            self.service.points.disarm_all()
            self.service.insist(self.accounts[0], "POST", "/sandbox/v1/clock", {"reset": True})
            self.settle()
            # That rail returns other ids to the worker than it keeps.
            self.service.check_books(is_rail_true=self.abilities.keeps_our_id)

    def transfer(self, side: int, way: str, amount_cents: int, ending: str, **body: Any) -> Answer:
        endings = {ending} if self.is_calm else set(ANY_ENDING["transfer"])
        return self.request("transfer", side, f"/v1/connect/transfer/{way}", amount_cents, endings, **body)

    def request(self, kind: Kind, side: int, path: str, amount_cents: int, endings: set[str], **body: Any) -> Answer:
        """Repeat a request under an external id until an answer comes."""
        account = self.accounts[side]
        asked = Asked(
            kind=kind, holder_id=account.holder_id, external_id=f"request-{next(self.numbers)}",
            amount_cents=amount_cents, endings=endings,
        )  # fmt: skip
        self.model.ask(asked)
        wanted = body | {"amount": amount_cents, "external_id": asked.external_id}
        before = self.service.see(self.accounts)
        answer = self.service.insist(account, "POST", path, wanted, until_done=kind == "charge")
        Tally.requests[f"{kind} {path.rpartition('/')[2]}"] += 1
        if answer.status == 200:
            asked.told_id = answer.data["id"]
            self.bodies.append((asked, path, wanted))
        else:
            asked.is_refused = True
            Tally.refusals[answer.code] += 1
        self.judge_funds(before, account, asked, answer)
        return answer

    def judge_funds(self, before: Seen, account: Account, asked: Asked, answer: Answer) -> None:
        """Possible refunds are accepted; those that would exceed the payment even if others fail are refused."""
        available_cents, _, _ = before.balances[account.holder_id]
        # A contest is reported by itself, so less may be available by now.
        if any(contest.is_open for contest in before.rail_contests):
            return
        is_refused_for_funds = answer.status == 422 and answer.code == "INSUFFICIENT_FUNDS"
        if asked.amount_cents <= available_cents:
            assert not is_refused_for_funds, (answer, before.balances)
        elif before.is_at_rest and asked.kind == "transfer":
            assert answer.status != 200, (answer, before.balances)

    def ask(self, side: int, path: str, body: dict[str, object]) -> Answer | None:
        """Make one request without an external id; its effect is read from the other side of the rail."""
        Tally.requests[path.rpartition("/")[2]] += 1
        answer = self.service.ask(self.accounts[side], "POST", path, body)
        if answer is not None and answer.status != 200:
            Tally.refusals[answer.code] += 1
        return answer

    def disturb(self) -> None:
        """From now on until everything is at rest, an open order may end in any way."""
        self.is_calm = False
        self.model.disturb()

    def count_kills(self) -> None:
        Tally.kills.update(point for point in self.armed if self.service.points.has_killed(point))
        self.armed = [point for point in self.armed if not self.service.points.has_killed(point)]

    def any_code(self, pick: int) -> tuple[Account, str, int]:
        """A charge's QR code. It depends on the speed of other processes, so it cannot be a precondition of a rule."""
        if not self.codes:
            self.create_charge(pick % 2, 1 + pick)
        return self.codes[pick % len(self.codes)]

    def any_cob(self, pick: int) -> tuple[Account, Asked]:
        if not self.cobs:
            self.put_cob(pick % 2, 1 + pick, is_free=pick % 3 == 0)
        return self.cobs[pick % len(self.cobs)]

    def check_cobs(self, seen: Seen) -> None:
        """At rest both APIs agree on a charge and its payment."""
        things = {thing.external_id: thing for thing in seen.things if thing.kind == "charge"}
        names = {thing.charge_id: thing.name for thing in seen.things if thing.charge_id is not None and thing.is_settled}
        for account, asked in self.cobs:
            shown = self.service.insist(account, "GET", f"/v2/cob/{asked.external_id}").body
            thing = things[asked.external_id]
            assert shown["status"] == COB_STATUSES[thing.status], (shown, thing)
            paid = [pix["endToEndId"] for pix in shown.get("pix", [])]
            assert paid == ([names[thing.id]] if shown["status"] == "CONCLUIDA" else []), (shown, thing)

    def any_settled(self, direction: str, pick: int) -> Thing | None:
        """A settled transfer that may be returned by anyone."""
        settled = [
            thing for thing in self.seen.things
            if thing.kind == "transfer" and thing.direction == direction and thing.is_settled
            and not (thing.is_book and direction == "OUT")
        ]  # fmt: skip
        return settled[pick % len(settled)] if settled else None

    def side_of(self, thing: Thing) -> int:
        return 0 if thing.holder_id == self.accounts[0].holder_id else 1

    def check_balances(self, seen: Seen) -> None:
        """The answers to a caller match the tables."""
        for account in self.accounts:
            told = self.service.insist(account, "GET", "/v1/connect/ledger/balance").data
            available_cents, reserved_cents, _ = seen.balances[account.holder_id]
            assert (told["available_funds"], told["current_funds"]) == (
                available_cents,
                available_cents + reserved_cents + seen.blocked[account.holder_id],
            )


@pytest.mark.parametrize(
    "abilities", [pytest.param(Abilities(), id="the sandbox", marks=pytest.mark.each_change), pytest.param(A_BANK, id="a bank")]
)
def test_money_is_conserved(capsys: pytest.CaptureFixture[str], abilities: Abilities) -> None:
    processes_count = "2" if IS_PROOF else "1"
    with open_whole_installation(structs.asdict(abilities), api_processes_count=processes_count) as service:
        Money.service, Money.abilities = service, abilities
        run_examples(Money, EXAMPLES_COUNT, STEPS_COUNT, is_drawn_anew=IS_PROOF)
    with capsys.disabled():
        if IS_PROOF:
            print(f"\n{abilities}\n{Tally.tell()}\nlongest walk of the clock: {service.longest_walk_s:.1f} s")  # noqa: T201  the figures are what `make prove` is for
