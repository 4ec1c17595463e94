"""Transfers at a hostile Efi and a hostile Inter in this process, while workers die. Undocumented behaviour is drawn.

Both know a transfer by our name. Efi refuses a second one for half a day. Inter returns the first for a minute, and may
pay again after that. In every case a name is paid once at most, and our outcome is the one at the institution.
"""

from datetime import timedelta
from random import Random
from typing import Any, Literal
from uuid import UUID

import pytest
from msgspec import Struct, structs

from features.institutions.adapters.hostile_twin import KNOWN_KEY, ORDERS_COUNT, UNKNOWN_KEY, HostileTwin, Ours, RailWorker
from pixconnect.features.institutions.adapters.efi import EfiInstitution
from pixconnect.features.institutions.adapters.inter import InterInstitution
from pixconnect.features.institutions.adapters.message import Content
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.institution import InstitutionTraits, InstitutionUnavailable
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.platform.base.clock import SAO_PAULO, format_milliseconds
from support.service import FakeClock

Kind = Literal["efi", "inter"]

TRAITS = {
    "efi": InstitutionTraits(sends=("KEY",), resend_for=timedelta(hours=12), sends_at_once=99),
    "inter": InstitutionTraits(sends=("KEY",), resend_for=timedelta(seconds=60), resends_after_restart=False, sends_at_once=99),
}


class Sent(Struct):
    name: str
    code: str
    cents: int
    key: str
    begun_at: Any
    seen_from: Any  # from then on it is found by our name or in the statement
    status: Literal["waits", "under_way", "settled", "refused"] = "under_way"
    settled_at: Any = None


class Twin(HostileTwin):
    LATE_MAX_S = 30

    def __init__(self, chance: Random, clock: FakeClock) -> None:
        super().__init__(chance, clock)
        self.sent: list[Sent] = []
        self.marks = dict[str, str]()  # the beginning of each error description, by code

    def find(self, name: str) -> list[Sent]:
        return [each for each in self.sent if each.name == name]

    async def read(self, route: str, path: str, query: Any = None, *, body_max: int = 0) -> Content:
        if self.draws(0.05) or self.clock.real_now() < self.fails_until:
            raise InstitutionUnavailable("it is away")
        return self.show(path)

    def show(self, path: str) -> Content:
        raise NotImplementedError

    def keep(self, name: str, cents: int, key: str, *, lag_s: int, waits: bool = False) -> Sent:
        now = self.arrived_at
        lag = timedelta(seconds=self.chance.randrange(lag_s) if self.draws(0.3) else 0)
        code = str(UUID(int=self.chance.getrandbits(128), version=4))
        one = Sent(name=name, code=code, cents=cents, key=key, begun_at=now, seen_from=now + lag)
        one.status = "waits" if waits else "under_way"
        self.sent.append(one)
        return one

    def go_on(self) -> None:
        """Late calls arrive, transfers end, and a person approves waiting ones."""
        self.take_late_calls()
        now = self.clock.real_now()
        for one in self.sent:
            if one.status == "waits" and self.chance.random() < (0.5 if self.is_calm else 0.05):
                one.status = "under_way" if self.chance.random() < 0.6 else "refused"
            elif one.status == "under_way" and self.chance.random() < 0.3:
                one.status = "settled" if self.chance.random() < 0.85 else "refused"
                one.settled_at = now


class Efi(Twin):
    def take(self, call: Any) -> Content:
        name = call.path.rpartition("/")[2]
        key, cents = call.body["favorecido"]["chave"], _cents(call.body["valor"])
        if self.find(name):
            return _say_efi(409, "id_envio_duplicado")
        if key == UNKNOWN_KEY:
            return _say_efi(404, "chave_favorecido_nao_encontrada")
        if self.draws(0.03):
            return _say_efi(422, "pagamento_negado")
        one = self.keep(name, cents, key, lag_s=60)
        if self.draws(0.04):
            # These errors are on no list of certain refusals.
            return _say_efi(self.chance.choice([400, 401, 409, 500, 503]), self.chance.choice(["erro", "invalido", ""]))
        return Content(status=201, value=self._show(one), wait_s=None)

    def show(self, path: str) -> Content:
        found = [one for one in self.find(path.rpartition("/")[2]) if one.seen_from <= self.clock.real_now()]
        if not found:
            return _say_efi(404, "pix_nao_encontrado")
        return Content(status=200, value=self._show(found[0]), wait_s=None)

    def _show(self, one: Sent) -> dict[str, Any]:
        words = dict(under_way="EM_PROCESSAMENTO", settled="REALIZADO", refused="NAO_REALIZADO")
        # Ended transfers are sometimes shown as under way.
        word = words["under_way"] if self.draws(0.05) else words[one.status]
        instants = {"solicitacao": format_milliseconds(one.begun_at)}
        if one.settled_at is not None:
            instants["liquidacao"] = format_milliseconds(one.settled_at)
        name = f"E09089356202607011500{one.name[:11]}"
        return dict(
            idEnvio=one.name, e2eId=name, valor=format_reais(one.cents), horario=instants, status=word,
            favorecido={"chave": one.key},
        )  # fmt: skip


class Inter(Twin):
    FORGETS_AFTER = timedelta(seconds=61)  # it keeps a key exactly as long as we rely on it

    def take(self, call: Any) -> Content:
        body, name = call.body, call.headers["x-id-idempotente"]
        key = body["destinatario"]["chave"]
        known = [one for one in self.find(name) if self.arrived_at - one.begun_at < self.FORGETS_AFTER]
        if known:
            return self._answer(known[0])
        if key == UNKNOWN_KEY:
            return Content(status=400, value={"title": "Chave não encontrada", "detail": ""}, wait_s=None)
        if self.draws(0.03):
            return Content(status=422, value={"title": "Regra de negócio", "detail": "limite"}, wait_s=None)
        one = self.keep(name, _cents(bytes(body["valor"]).decode()), key, lag_s=3600, waits=self.draws(0.1))
        self.marks[one.code] = body["descricao"]
        if self.draws(0.04):
            return self.chance.choice([
                Content(status=400, value={"message": "gateway"}, wait_s=None),
                Content(status=401, value={"title": "token"}, wait_s=None),
                Content(status=500, value={"title": "erro"}, wait_s=None),
                Content(status=200, value={"tipoRetorno": "APROVACAO"}, wait_s=None),
            ])  # fmt: skip
        return self._answer(one)

    def _answer(self, one: Sent) -> Content:
        return Content(status=200, value={"codigoSolicitacao": one.code, "tipoRetorno": "PROCESSADO"}, wait_s=None)

    def show(self, path: str) -> Content:
        if not path.endswith("completo"):
            (one,) = [each for each in self.sent if each.code == path.rpartition("/")[2]]
            return Content(status=200, value={"transacaoPix": self._show(one)}, wait_s=None)
        now = self.clock.real_now()
        rows = [
            dict(tipoOperacao="D", detalhes=dict(descricaoPix=self.marks[one.code], codigoSolicitacao=one.code))
            for one in self.sent
            if one.status == "settled" and one.seen_from <= now
        ]
        value = {"transacoes": rows, "totalPaginas": 1, "totalElementos": len(rows)}
        return Content(status=200, value=value, wait_s=None)

    def _show(self, one: Sent) -> dict[str, Any]:
        words = dict(
            waits=["AGUARDANDO_APROVACAO"], under_way=["EM_PROCESSAMENTO", "APROVADO"], settled=["PAGO", "PIX_PAGO"],
            refused=["REPROVADO", "FALHA", "CANCELADO"],
        )  # fmt: skip
        shown: dict[str, Any] = dict(
            codigoSolicitacao=one.code, status=self.chance.choice(words[one.status]), valor=one.cents / 100, chave=one.key
        )
        if one.status == "settled":
            shown["endToEnd"] = f"E00416968202607011500{one.code.replace('-', '')[:11]}"
            shown["dataHoraMovimento"] = f"{one.settled_at.astimezone(SAO_PAULO):%Y-%m-%dT%H:%M:%S}"
        return shown


def _say_efi(status: int, name: str) -> Content:
    return Content(status=status, value={"nome": name, "mensagem": "não"}, wait_s=None)


def _cents(reais: str) -> int:
    return int(reais.replace(".", ""))


class OfEfi(EfiInstitution):
    def __init__(self, twin: Any, clock: FakeClock) -> None:
        self._calls, self._clock, self._known = twin, clock, read_profile("efi").account


class OfInter(InterInstitution):
    def __init__(self, twin: Any, clock: FakeClock) -> None:
        self._calls = self._sending = twin
        self._clock, self._known = clock, read_profile("inter").account


class Worker(RailWorker):
    ENDS_A_REPEAT = Settled | Rejected

    def __init__(self, chance: Random, clock: FakeClock, twin: Twin, kind: Kind) -> None:
        self.twin, self.kind = twin, kind
        super().__init__(chance, clock)

    def start(self) -> None:
        sender = OfEfi(self.twin, self.clock) if self.kind == "efi" else OfInter(self.twin, self.clock)
        self.rail = self.open_rail(TRAITS[self.kind], sender)

    def accept(self, number: int, key: str) -> None:
        order = self.make_order(number, key)
        self.steps.mint(order, self.clock)
        self.orders.append(Ours(order=structs.replace(order, payer_key="own@pix.example")))


async def _run(kind: Kind, seed: int) -> tuple[int, int, int]:
    """How many ended, settled, and were submitted."""
    chance, clock = Random(f"{kind} {seed}"), FakeClock()  # noqa: S311  it must be the same again
    twin = Efi(chance, clock) if kind == "efi" else Inter(chance, clock)
    worker = Worker(chance, clock, twin, kind)
    for number in range(ORDERS_COUNT):
        worker.accept(number, UNKNOWN_KEY if chance.random() < 0.15 else KNOWN_KEY)
    for _ in range(60):
        await worker.work()
        twin.go_on()
        clock.advance(seconds=chance.choice([1, 5, 20, 60]))
        _check(worker, twin, seed)
    twin.is_calm = True
    for _ in range(60):
        await worker.work()
        twin.go_on()
        clock.advance(minutes=7)
        _check(worker, twin, seed)
    ended = [ours for ours in worker.orders if ours.ending is not None]
    return len(ended), sum(isinstance(ours.ending, Settled) for ours in ended), sum(o.is_handed for o in worker.orders)


def _check(worker: Worker, twin: Twin, seed: int) -> None:
    by_name = {step.order_name: step.name_there for step in worker.steps.of.values()}
    for ours in worker.orders:
        name = by_name[ours.order.end_to_end_id]
        there = twin.find(name if worker.kind == "efi" else str(UUID(hex=name, version=5)))
        assert len(there) <= 1, (seed, ours, there)
        is_paid = bool(there) and there[0].status == "settled"
        if isinstance(ours.ending, Settled):
            assert is_paid, (seed, ours, there)
        elif ours.ending is not None:
            assert not there or there[0].status == "refused", (seed, ours, there)


@pytest.mark.parametrize("kind", ["efi", "inter"])
async def test_a_name_is_paid_once_at_most_and_ends_as_it_ended_there(kind: Kind) -> None:
    told = [await _run(kind, seed) for seed in range(60)]
    assert sum(handed for _, _, handed in told) == 60 * ORDERS_COUNT
    assert sum(settled for _, settled, _ in told) > 350
    # Unknown ones wait for people: Inter's statement only has paid ones.
    assert sum(ended for ended, _, _ in told) > 500


@pytest.mark.long
@pytest.mark.parametrize("kind", ["efi", "inter"])
async def test_ten_thousand_transfers_end_as_they_ended_there(kind: Kind) -> None:
    for seed in range(60, 1060):
        await _run(kind, seed)
