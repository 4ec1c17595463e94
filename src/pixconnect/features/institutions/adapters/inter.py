"""Inter's additions to the standard: sending, its balance, and the whole statement, which names every Pix of a day both ways.

A statement with too many lines for its pages is scrolled: one reader at a time, since a second scroll of an account ends the
first.

A sent Pix has a code of Inter's, which only the answer contains, and is queried by that. If the answer is lost, the same
request under the same ``x-id-idempotente`` gets the same answer; and later the statement has the code, beside a description
that ends with our mark.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec import structs

from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.calls import Call, Calls, obtain
from pixconnect.features.institutions.adapters.message import LIST_MAX, Content, as_list, as_members
from pixconnect.features.institutions.adapters.standard import StandardInstitution
from pixconnect.features.institutions.adapters.token import CallParts
from pixconnect.features.institutions.adapters.wire import find_first, find_listed_payee
from pixconnect.features.institutions.profiles.profile import InstitutionProfile
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentStatus
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules.money import format_reais
from pixconnect.platform.base.clock import to_day

_CODE: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MESSAGE_MAX: Final = 140
_MARK_LENGTH: Final = 20
_REASON_MAX: Final = 500
_ACCOUNT_TYPES: Final = dict(
    CHECKING="CONTA_CORRENTE", SAVINGS="CONTA_POUPANCA", SALARY="CONTA_SALARIO", TRANSACTIONAL="CONTA_PAGAMENTO"
)
_ENDED: Final = dict[str, SentStatus](
    PAGO="settled", PIX_PAGO="settled", REPROVADO="refused", EXPIRADO="refused", CANCELADO="refused", FALHA="refused",
    CANCELADO_SEM_SALDO="refused", NAO_DEBITADO="refused", AGENDAMENTO_CANCELADO="refused",
)  # fmt: skip
"""With any other word the Pix may still be paid: it may wait for a person's approval."""


def write_key(name: str) -> str:
    """Write our name as ``x-id-idempotente``, which must be a UUID.

    Example:
        >>> write_key("34c6ee378432224104a8e8b0d45d767b")
        '34c6ee37-8432-5241-84a8-e8b0d45d767b'
    """
    return str(UUID(hex=name, version=5))


def mark(name: str) -> str:
    """Return the suffix of our Pix's description: the statement shows it, and none of our other names."""
    return name[:_MARK_LENGTH]


def write_send(pix: OutgoingPix) -> dict[str, object] | None:
    """Write the body; ``None`` if it has no form for such an account."""
    payee = pix.payee
    if pix.is_by_key:
        receiver: dict[str, object] = dict(tipo="CHAVE", chave=payee.key)
    else:
        kind = _ACCOUNT_TYPES.get(payee.account_type)
        if kind is None:
            return None
        receiver = dict(tipo="DADOS_BANCARIOS", nome=payee.name, cpfCnpj=payee.tax_id, agencia=payee.branch)
        receiver |= dict(contaCorrente=payee.account_number, tipoConta=kind)
        receiver |= dict(instituicaoFinanceira={"ispb": payee.ispb})
    message = (pix.payer_message or "")[: _MESSAGE_MAX - _MARK_LENGTH - 1]
    # A number with exactly these digits: it is never a float here.
    amount = msgspec.Raw(format_reais(pix.amount_cents).encode())
    return dict(valor=amount, descricao=f"{message} {mark(pix.name)}".lstrip(), destinatario=receiver)


def take_code(members: Mapping[str, object]) -> str:
    return wire.take_text(members, "codigoSolicitacao", 36, form=_CODE)


def decode_pix_of_code(name: str, code: str, members: Mapping[str, object]) -> SentPix:
    """Read a sent Pix from the query by its code; ``Malformed`` if any of it is unreliable."""
    pix = wire.take_members(members, "transacaoPix")
    if take_code(pix) != code:
        raise wire.Malformed("codigoSolicitacao is that of another Pix")
    word = wire.take_text(pix, "status", 60)
    status: SentStatus = _ENDED.get(word, "under_way")
    has_name = status == "settled" or pix.get("endToEnd") not in (None, "")
    return SentPix(
        name=name,
        code=code,
        # Without it, its line of the statement would belong to another Pix: a paid one must have it.
        end_to_end_id=wire.take_end_to_end_id(pix, "endToEnd") if has_name else None,
        amount_cents=wire.take_number_of_reais(pix, "valor"),
        status=status,
        settled_at=wire.take_local_day(pix, "dataHoraMovimento")[1] if status == "settled" else None,
        payee=wire.find_whole_key(pix, "chave"),
        paid=find_listed_payee(
            find_first(pix, "recebedor"),
            name="nome",
            tax_id="cpfCnpj",
            ispb="codIspb",
            branch="codAgencia",
            account_number="nroConta",
        ),
        reason=_find_reason(word, pix) if status == "refused" else None,
        waits_for="approval" if word == "AGUARDANDO_APROVACAO" else None,
    )


def find_marked(row: object, name: str) -> str | None:
    """Find the code of the statement's line of our Pix of this name."""
    members = as_members(row) or {}
    details = as_members(members.get("detalhes")) or {}
    if members.get("tipoOperacao") != "D":
        return None
    text = wire.find_free_text(details, "descricaoPix", _REASON_MAX)
    return take_code(details) if text is not None and text.split()[-1:] == [mark(name)] else None


def _find_reason(word: str, pix: Mapping[str, object]) -> str:
    rows = [as_members(row) or {} for row in as_list(pix.get("erros")) or ()]
    texts = (wire.find_free_text(row, name, 100) for row in rows for name in ("codigoErro", "descricaoErro"))
    return " ".join([word, *filter(None, texts)])[:_REASON_MAX]


_BALANCE: Final = "/banking/v2/saldo"
_SEND: Final = "/banking/v2/pix"
_RESENT_FOR: Final = timedelta(seconds=60)
"""Libraries say that the same key gets the same answer, and no source says for how long."""
_OUTCOME_S: Final = 4.0  # usual time until an order's outcome is known; it is queried 15 times a minute
_LOOKED_FOR: Final = timedelta(days=40)
_CLOCKS_APART: Final = timedelta(hours=1)
_STATEMENT: Final = "/banking/v2/extrato/completo"
_BLOCKED: Final = ("bloqueadoCheque", "bloqueadoJudicialmente", "bloqueadoAdministrativo")
# Maximum 90 days a call; fewer, so that most spans fit into the pages.
_DAYS_MAX: Final = 30
_PAGE_SIZE: Final = 2000
_PAGED_MAX: Final = 10_000
_ITEMS_MAX: Final = 10_000_000
_TEXT_MAX: Final = 200
_ID_MAX: Final = 100
_SCROLL_MAX: Final = 2000
_SCROLLED: Final = dict(scrollEnabled="true")
_DIRECTIONS: Final = dict[str, Literal["IN", "OUT"]](C="IN", D="OUT")
_KINDS: Final = dict[str, port.ItemKind](
    PIX="pix", ESTORNO="reversal", TARIFA="fee", TRANSFERENCIA="wire", TED="wire", PAGAMENTO="boleto", BOLETO_COBRANCA="boleto"
)
"""The kinds of lines by word; any other word is ``other``."""


class InterInstitution(StandardInstitution):
    def __init__(self, parts: CallParts, profile: InstitutionProfile) -> None:
        super().__init__(parts, profile)
        self._one_scroll = asyncio.Lock()

    @property
    def traits(self) -> port.InstitutionTraits:
        return structs.replace(
            super().traits,
            has_balance=True,
            has_statement=True,
            sends=("KEY", "MANUAL"),
            resend_for=_RESENT_FOR,
            resends_after_restart=False,
            sends_at_once=self._account.sends_at_once,
            sends_per_s=1 / _OUTCOME_S,
        )

    async def send(self, pix: OutgoingPix) -> port.SendAnswer:
        body = write_send(pix)
        if body is None:
            return port.CertainRefusal(code="tipoConta", reason="Inter pays to no account of this type", reject_code="AC14")
        headers = {"x-id-idempotente": write_key(pix.name)}
        # Under the same key nothing is paid again, so it may be repeated after an expired token.
        on, until_s = self._ended, pix.not_after_s
        change = Call("send", "POST", _SEND, body, headers=headers, repeated_on=on, is_new=True, not_after_s=until_s)
        code = await obtain(self._sending, change, take_code, self._judge_sent)
        if not isinstance(code, str):
            return code
        # Taken, with any word: a person may have to approve it. The query reports its state.
        return SentPix(
            name=pix.name, code=code, end_to_end_id=None, amount_cents=pix.amount_cents, status="under_way", settled_at=None
        )

    def _judge_sent(self, answer: Content) -> port.CertainRefusal | port.UnknownOutcome:
        # A banking error has a title; others come from a gateway or an unknown source.
        has_title = isinstance(answer.members.get("title"), str)
        return self._judge(answer, self._known.send_refusals if has_title else (), self._sending)

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        known = code or await self._find_code(name, since)
        if known is None:
            return None
        content = await self._sending.read("sent", f"{_SEND}/{known}")
        # After a reported code, "not found" does not mean absent.
        return self._read_required(content, lambda: decode_pix_of_code(name, known, content.members), self._sending)

    async def _find_code(self, name: str, since: datetime | None) -> str | None:
        """Find the code of the Pix sent under our name since then; ``None`` if no line of the statement has it yet."""
        now = self._clock.real_now()
        oldest = now - _LOOKED_FOR
        begin = to_day(max(since or oldest, oldest) - _CLOCKS_APART)
        codes = set[str]()
        async for rows in self._list_rows(self._sending, begin, to_day(now)):
            for row in rows:
                try:
                    code = find_marked(row, name)
                except wire.Malformed as error:
                    raise port.InstitutionUnavailable(error.reason) from None
                codes |= set() if code is None else {code}
        if len(codes) > 1:
            raise port.InstitutionUnavailable(f"the statement has {len(codes)} Pix under one of our names")
        return next(iter(codes), None)

    async def read_balance(self) -> int:
        return await self._read_balance({})

    async def read_closing_balance(self, day: date) -> int | None:
        return await self._read_balance({"dataSaldo": day.isoformat()})

    async def _read_balance(self, query: Mapping[str, str]) -> int:
        content = await self._calls.read("account", _BALANCE, query)
        members = content.members
        return self._read_required(
            content,
            lambda: (
                wire.take_number_of_reais(members, "disponivel")
                + sum(wire.take_number_of_reais(members, name) for name in _BLOCKED if members.get(name) is not None)
            ),
        )

    async def list_statement(self, since: date, until: date) -> AsyncGenerator[Sequence[port.InstitutionItem | MalformedItem]]:
        async for rows in self._list_rows(self._calls, since, until):
            yield wire.read_each(rows, _read_item)

    async def _list_rows(self, calls: Calls, since: date, until: date) -> AsyncGenerator[Sequence[object]]:
        spans = _split_days(since, until, _DAYS_MAX)
        while spans:
            first, last = spans.pop(0)
            days = {"dataInicio": first.isoformat(), "dataFim": last.isoformat()}
            number, count, total_count = 0, 1, 0
            while number < count and total_count <= _PAGED_MAX:
                paged = days | {"pagina": str(number), "tamanhoPagina": str(_PAGE_SIZE)}
                rows, count, total_count = await self._read_page(calls, paged, has_days=first < last)
                if total_count <= _PAGED_MAX:
                    yield rows
                number += 1
            if total_count > _PAGED_MAX and first < last:
                # Single days may have fewer lines.
                spans[:0] = _split_days(first, last, 1)
            elif total_count > _PAGED_MAX:
                # Pages end there. Scrolling reads all of it again; duplicate lines are merged.
                async with self._one_scroll:
                    async for rows in self._scroll(calls, days):
                        yield rows

    async def _try_own(self) -> Sequence[port.PermissionTried]:
        return [await self._try("extrato.read", "account", _BALANCE)]

    async def _read_page(self, calls: Calls, query: Mapping[str, str], *, has_days: bool) -> tuple[Sequence[object], int, int]:
        """Read lines, the number of pages and of lines; for a refused span of days, more pages than permitted."""
        content = await calls.read("statement", _STATEMENT, query, body_max=LIST_MAX)
        if has_days and content.status == 400:
            return (), 1, _PAGED_MAX + 1
        members = content.members
        return self._read_required(
            content,
            lambda: (
                wire.take_rows(members, "transacoes"),
                wire.take_count(members, "totalPaginas", _PAGED_MAX),
                wire.take_count(members, "totalElementos", _ITEMS_MAX),
            ),
            calls,
        )

    async def _scroll(self, calls: Calls, days: Mapping[str, str]) -> AsyncGenerator[Sequence[object]]:
        query = {**days, "tamanhoPagina": str(_PAGE_SIZE), **_SCROLLED}
        known = set[str]()
        for _ in range(_ITEMS_MAX // _PAGE_SIZE):
            content = await calls.read("statement", _STATEMENT, query, body_max=LIST_MAX)
            rows, scroll_id, has_more = self._read_required(
                content, lambda content=content: _read_scrolled(content.members), calls
            )
            yield rows
            if not has_more:
                return
            # The scroll id need not change; without new lines there would be no end.
            marks = {repr(row) for row in rows}
            if not scroll_id or marks <= known:
                raise port.InstitutionUnavailable("the scrolled statement announces more lines, and shows none")
            known = marks
            query = {**days, **_SCROLLED, "scrollId": scroll_id}


def _split_days(first: date, last: date, count: int) -> list[tuple[date, date]]:
    """Split days into spans of a maximum length, oldest first.

    Example:
        >>> [(begin.day, end.day) for begin, end in _split_days(date(2026, 7, 1), date(2026, 7, 5), 2)]
        [(1, 2), (3, 4), (5, 5)]
    """
    begins = [first + timedelta(days=number) for number in range(0, (last - first).days + 1, count)]
    return [(begin, min(begin + timedelta(days=count - 1), last)) for begin in begins]


def _read_scrolled(members: Mapping[str, object]) -> tuple[Sequence[object], str | None, bool]:
    has_more = members.get("hasMore")
    if not isinstance(has_more, bool):
        raise wire.Malformed("hasMore is neither true nor false")
    return wire.take_rows(members, "transacoes"), wire.find_text(members, "scrollId", _SCROLL_MAX), has_more


def _read_item(members: Mapping[str, object]) -> port.InstitutionItem:
    direction = _DIRECTIONS.get(wire.take_text(members, "tipoOperacao", 20))
    if direction is None:
        raise wire.Malformed("tipoOperacao is neither C nor D")
    details = as_members(members.get("detalhes")) or {}
    name = wire.find_network_name(details, "endToEndId")
    kind: port.ItemKind = _KINDS.get(wire.take_text(members, "tipoTransacao", 60), "other")
    # A returned Pix comes as PIX or as ESTORNO (undocumented), so its name decides.
    if name is not None and (kind == "reversal" or (kind == "pix" and name.startswith("D"))):
        kind = "refund"
    # The day on which the balance moved; the other may be the bank's value date.
    day, instant = wire.take_local_day(members, "dataInclusao", "dataTransacao")
    texts = (wire.find_free_text(members, "titulo", _TEXT_MAX), wire.find_free_text(members, "descricao", _TEXT_MAX))
    return port.InstitutionItem(
        item_id=wire.take_text(members, "idTransacao", _ID_MAX),
        day=day,
        settled_at=instant,
        direction=direction,
        amount_cents=wire.take_reais(members, "valor"),
        kind=kind,
        end_to_end_id=name,
        txid=wire.find_any_txid(details, "txId"),
        text=" ".join(filter(None, texts)),
    )
