"""Transfers at a hostile Woovi in this process, while workers die and databases are restored.

Undocumented behaviour is drawn. In every case a name is paid once at most, and our outcome is the one at the
institution.
"""

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec import Struct, structs

from features.institutions.adapters.hostile_twin import KNOWN_KEY, ORDERS_COUNT, UNKNOWN_KEY, HostileTwin, Ours, RailWorker
from pixconnect.features.institutions.adapters.message import Content
from pixconnect.features.institutions.adapters.woovi_sender import RESENT_FOR, WooviSender
from pixconnect.features.institutions.rules.institution import InstitutionTraits, InstitutionUnavailable
from pixconnect.features.institutions.rules.rail_memory import RailStep
from pixconnect.kernel.rules.br_code import format_static_br_code, parse_br_code
from pixconnect.kernel.rules.rail import Settled
from support.service import FakeClock

TEXTS = ("A chave Pix não foi encontrada.", "Limite excedido", "Erro ao processar")


class Payment(Struct):
    body: dict[str, Any]
    created_at: datetime
    hidden_until: datetime
    status: str = "CREATED"
    paid_count: int = 0
    approvals_count: int = 0


class Woovi(HostileTwin):
    LATE_MAX_S = 120

    def __init__(self, chance: Random, clock: FakeClock) -> None:
        super().__init__(chance, clock)
        self.payments: dict[str, Payment] = {}
        self.removed = set[str]()
        self.absent = chance.choice([400, 404])
        self.forgets_removed = chance.random() < 0.5
        self.keeps_what_has_no_money = chance.random() < 0.7
        self.tells_all = chance.random() < 0.5
        self.checks_keys_at_once = chance.random() < 0.5
        self.has_list = chance.random() < 0.8

    def take(self, call: Any) -> Content:
        return self._approve(call.body) if call.path.endswith("approve") else self._create(call.body)

    def _create(self, body: dict[str, Any]) -> Content:
        name, now = body["correlationID"], self.clock.real_now()
        if name in self.payments or (name in self.removed and not self.forgets_removed):
            return say("Já existe um pagamento com o correlationID fornecido")
        if self.checks_keys_at_once and read_key(body) == UNKNOWN_KEY:
            return say(TEXTS[0])
        if self.draws(0.03):
            return say(self.chance.choice(TEXTS[1:]))
        hidden = timedelta(seconds=self.chance.randrange(40) if self.draws(0.2) else 0)
        payment = Payment(body=body, created_at=now, hidden_until=now + hidden)
        if body["autoApprove"] and self.draws(0.1):
            # Insufficient funds, in one of the two known texts, or in another one although the payment exists.
            if self.keeps_what_has_no_money:
                self.payments[name] = payment
            return say(self.chance.choice(["You do not have enough balance to make this payment", "saldo"]))
        self.payments[name] = payment
        if self.draws(0.03):
            return say(self.chance.choice(TEXTS[1:]))
        payment.status = "APPROVED" if body["autoApprove"] else "CREATED"
        return Content(status=200, value=self._show(name, is_whole=self.tells_all), wait_s=None)

    def _approve(self, body: dict[str, Any]) -> Content:
        payment = self.payments.get(body["correlationID"])
        if payment is None:
            return say("não existe")
        payment.approvals_count += 1
        if self.draws(0.1):
            return say("Você não possui saldo o suficiente para realizar esse pagamento")
        if payment.status != "CREATED":
            return say("O pagamento já foi aprovado.")
        payment.status = "APPROVED"
        return Content(status=200, value=self._show(body["correlationID"], is_whole=True), wait_s=None)

    def _show(self, name: str, *, is_whole: bool = True) -> dict[str, Any]:
        payment = self.payments[name]
        alias = read_key(payment.body)
        told = {name: payment.body[name] for name in ("destinationAlias", "qrCode") if name in payment.body}
        shown = dict(correlationID=name, value=payment.body["value"], status=payment.status, **told)
        if not is_whole or payment.status == "CREATED":
            return {"payment": shown}
        moved = dict(
            endToEndId=f"E54811417202607011500{name[:11]}", time="2026-07-01T15:00:00.000Z", value=payment.body["value"]
        )
        return {"payment": shown, "transaction": moved, "destination": {"name": "Dan", "pixKey": alias}}

    async def read(self, route: str, path: str, query: Any = None, *, body_max: int = 0) -> Content:
        now = self.clock.real_now()
        if self.draws(0.05):
            raise InstitutionUnavailable("it is away")
        if now < self.fails_until:
            return say("Erro interno")
        if query is not None:
            if not self.has_list:
                return Content(status=403, value={"error": "Application does not have required scope"}, wait_s=None)
            shown = [self._show(name) for name, one in self.payments.items() if one.hidden_until <= now]
            return Content(status=200, value={"payments": shown, "pageInfo": {"hasNextPage": False}}, wait_s=None)
        payment = self.payments.get(path.rpartition("/")[2])
        if payment is None or now < payment.hidden_until:
            return Content(status=self.absent, value={"error": "não encontrado"}, wait_s=None)
        return Content(status=200, value=self._show(payment.body["correlationID"]), wait_s=None)

    def go_on(self) -> None:
        """Late calls arrive, payments end, and a person approves and removes them."""
        self.take_late_calls()
        for name, payment in list(self.payments.items()):
            if payment.status == "CREATED" and self.chance.random() < (0.5 if self.is_calm else 0.02):
                if self.chance.random() < 0.5:
                    payment.status = "APPROVED"
                else:
                    del self.payments[name]
                    self.removed.add(name)
            elif payment.status == "APPROVED" and self.chance.random() < 0.3:
                payment.status = "PROCESSING"
            elif payment.status == "PROCESSING" and self.chance.random() < 0.5:
                is_done = read_key(payment.body) == KNOWN_KEY and self.chance.random() < 0.9
                payment.status = "CONFIRMED" if is_done else "FAILED"
                payment.paid_count += is_done


def read_key(body: dict[str, Any]) -> str:
    return parse_br_code(body["qrCode"]).key or "" if "qrCode" in body else body["destinationAlias"]


def say(text: str) -> Content:
    return Content(status=400, value={"error": text}, wait_s=None)


class Service(RailWorker):
    ENDS_A_REPEAT = Settled

    def __init__(self, chance: Random, clock: FakeClock, woovi: Woovi, *, has_two_steps: bool) -> None:
        self.woovi, self.has_two_steps = woovi, has_two_steps
        self.kept: tuple[dict[str, RailStep], list[Ours]] | None = None
        self.was_restored = False
        super().__init__(chance, clock)

    def start(self) -> None:
        calls: Any = self.woovi
        traits = InstitutionTraits(
            sends=("KEY", "QRCODE"), resend_for=timedelta(0) if self.has_two_steps else RESENT_FOR, sends_at_once=99
        )
        self.rail = self.open_rail(traits, WooviSender(calls, self.clock, has_two_steps=self.has_two_steps))

    def accept(self, number: int, key: str) -> None:
        order = self.make_order(number, key)
        if number % 2:
            # Some codes fix the amount, and some leave it open.
            amount_cents = order.amount_cents if number % 4 == 1 else None
            code = format_static_br_code(key, "Loja", "Recife", amount_cents=amount_cents)
            order = structs.replace(order, initiation_type="QRCODE", br_code=code)
        self.steps.mint(order, self.clock)
        self.orders.append(Ours(order=order))

    def keep(self) -> None:
        self.kept = dict(self.steps.of), [structs.replace(ours) for ours in self.orders]

    def restore(self) -> None:
        """Restore the state of then: open orders count as called and are only asked about; later ones are requested again."""
        if self.kept is None:
            return
        of, orders = self.kept
        since = self.orders[len(orders) :]
        self.steps.of = {
            name: step
            if step.state == "closed"
            else structs.replace(
                step, state="calling" if step.state == "minted" else step.state, only_asked=True,
                called_at=step.called_at or self.clock.real_now(),
            )
            for name, step in of.items()
        }  # fmt: skip
        self.orders = [structs.replace(ours, is_handed=True) for ours in orders]
        for ours in since:
            self.steps.mint(ours.order, self.clock)
            self.orders.append(Ours(order=ours.order))
        self.was_restored = True
        self.start()


async def _run(seed: int) -> tuple[int, int]:
    chance, clock = Random(seed), FakeClock()  # noqa: S311  it must be the same again
    woovi = Woovi(chance, clock)
    service = Service(chance, clock, woovi, has_two_steps=seed % 4 == 3)
    for number in range(ORDERS_COUNT):
        service.accept(number, UNKNOWN_KEY if chance.random() < 0.15 else KNOWN_KEY)
    restored_at = chance.randrange(60) if seed % 3 == 0 else None
    kept_at = chance.randrange(40)
    for number in range(60):
        if number == kept_at:
            service.keep()
        if number == restored_at:
            service.restore()
        await service.work()
        woovi.go_on()
        clock.advance(seconds=chance.choice([1, 5, 20, 60]))
        _check(service, woovi, seed)
    woovi.is_calm = True
    for _ in range(60):
        await service.work()
        woovi.go_on()
        clock.advance(minutes=7)
        _check(service, woovi, seed)
    for ours in service.orders:
        step = service.steps.of[ours.order.end_to_end_id]
        # A payment that was removed before we knew of it is never found, and the refusal of a second call proves
        # nothing.
        is_known = ours.order.credit_party.key == KNOWN_KEY
        is_never_known = step.name_there in woovi.removed or not is_known or not woovi.has_list
        may_stay_open = service.was_restored or service.has_two_steps or is_never_known
        assert may_stay_open or ours.ending is not None, (seed, step)
    ended = [ours for ours in service.orders if ours.ending is not None]
    return len(ended), sum(isinstance(ours.ending, Settled) for ours in ended)


def _check(service: Service, woovi: Woovi, seed: int) -> None:
    for name, payment in woovi.payments.items():
        assert payment.paid_count <= 1, (seed, name)
        assert payment.approvals_count <= 1, (seed, name, "approved twice by us")
    for ours in service.orders:
        step = service.steps.of[ours.order.end_to_end_id]
        there = woovi.payments.get(step.name_there)
        is_paid = there is not None and there.status == "CONFIRMED"
        if isinstance(ours.ending, Settled):
            assert is_paid, (seed, ours, there)
        elif ours.ending is not None:
            # No person can approve it any more.
            assert there is None or there.status == "FAILED", (seed, ours, there, step)


async def test_a_name_is_paid_once_at_most_and_ends_as_it_ended_there() -> None:
    told = [await _run(seed) for seed in range(60)]
    assert sum(settled for _, settled in told) > 300
    assert sum(ended for ended, _ in told) > 450


@pytest.mark.long
async def test_ten_thousand_transfers_end_as_they_ended_there() -> None:
    for seed in range(60, 1060):
        await _run(seed)
