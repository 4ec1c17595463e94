"""Sicoob's additions to the standard: sending, and its current account's balance and statement.

Balance and statement may be nested in ``resultado``.

It sends in two steps. The first returns the key's owner and the network's name of the payment, and moves nothing; the second
pays. The effect of a second confirmation of one name is undocumented, so each is confirmed once, and then queried by it. Its
statement has no unique names of lines, so a line is named by its contents and its place among equal lines of its day.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Final, Literal

from msgspec import structs

from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.calls import Call, obtain
from pixconnect.features.institutions.adapters.message import FILE_MAX, Content, as_members
from pixconnect.features.institutions.adapters.standard import StandardInstitution
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.pending_call import MintAnswer, NamedPix
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentStatus
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, format_reais
from pixconnect.platform.base.clock import begin_of_day

_MESSAGE_MAX: Final = 140
_WORD: Final = re.compile(r"[A-Z0-9]{4}")
_KEY_MAX: Final = 77
_NAME_MAX: Final = 200
_REASON_MAX: Final = 500
_ENDED: Final = dict[str, SentStatus](FINALIZADO="settled", REJEITADO="refused")
"""With any other word, the payment may still be made."""
NOT_DONE: Final = "NAO_REALIZADO"  # named and not confirmed, or ended without effect (undocumented), so it ends nothing


def write_confirmation(pix: OutgoingPix) -> dict[str, object]:
    """Write the body of the second step. It has no day, which would schedule it; ``199`` would be 199 reais.

    Example:
        >>> from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
        >>> pix = OutgoingPix(name="a", code="E1", amount_cents=199, payer_key=None, payee=UNKNOWN_PARTY, is_by_key=True)
        >>> write_confirmation(pix)
        {'endToEndId': 'E1', 'meioIniciacao': 'CHAVE', 'valor': '1,99'}
    """
    message = {"descricao": pix.payer_message[:_MESSAGE_MAX]} if pix.payer_message else {}
    amount = format_reais(pix.amount_cents).replace(".", ",")
    return dict(endToEndId=pix.code, meioIniciacao="CHAVE", valor=amount, **message)


def decode_minted(members: Mapping[str, object], key: str) -> NamedPix:
    """Read the answer to the first step; ``Malformed`` if any of it is unreliable, or is about another key."""
    stated = wire.find_text(members, "chave", _KEY_MAX)
    if stated is not None and _plain(stated) != _plain(key):
        raise wire.Malformed("chave is another key than the one that we asked for")
    owner = as_members(members.get("proprietario")) or {}
    tax_id = "".join(each for each in wire.find_text(owner, "identificador", 40) or "" if each.isalnum() or each == "*")
    return NamedPix(
        code=wire.take_end_to_end_id(members, "endToEndId"),
        owner_tax_id=tax_id or None,
        owner_name=wire.find_free_text(owner, "nome", _NAME_MAX),
    )


def decode_sent_pix(name: str, code: str, members: Mapping[str, object]) -> SentPix | None:
    """Read a payment from the answer to its second step or to a query; ``None`` if it was reported as not made."""
    if wire.take_text(members, "endToEndId", 32) != code:
        raise wire.Malformed("endToEndId is that of another payment")
    # Its word has an accent, which not all write, and not all in the same characters.
    word = _fold(wire.find_text(members, "estado", 60) or "")
    if word == NOT_DONE:
        return None
    status: SentStatus = _ENDED.get(word, "under_way")
    # A number here; elsewhere written with a point or a comma.
    amount = members.get("valor")
    amount = amount.replace(",", ".") if isinstance(amount, str) else amount
    reason = wire.find_free_text(members, "detalheRejeicao", _REASON_MAX) if status == "refused" else None
    return SentPix(
        name=name,
        code=code,
        end_to_end_id=code,
        amount_cents=wire.take_number_of_reais({"valor": amount}, "valor"),
        status=status,
        settled_at=_find_instant(members) if status == "settled" else None,
        reason=reason,
        reject_code=next((word for word in _WORD.findall(reason or "") if word in reject_code.REASONS), None),
    )


def _find_instant(members: Mapping[str, object]) -> datetime | None:
    try:
        return wire.find_instant(members, "horario")
    except wire.Malformed:
        return None  # a paid one is paid, at any age


def _plain(key: str) -> str:
    return "".join(filter(str.isalnum, key)).casefold()


def _fold(word: str) -> str:
    """Fold to capitals without accents.

    Example:
        >>> _fold("NÃO_REALIZADO"), _fold(unicodedata.normalize("NFD", "não realizado"))
        ('NAO_REALIZADO', 'NAO_REALIZADO')
    """
    plain = "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))
    return plain.upper().replace(" ", "_")


_SENT: Final = "/pix-pagamentos/v2/pagamentos"
_NO_SUCH_KEY: Final = (400, 404, 422)
"""The first step's possible answers for an unknown key (undocumented). It moves nothing, so each is conclusive."""
_PATIENCE_S: Final = 5.0  # Sicoob accepts one request a second, and each transfer takes two
_OUTCOME_S: Final = 4.0  # usual time until an order's outcome is known
_SENDS_PER_S_MAX: Final = 0.3  # two requests each, from the two thirds of the budget that are not for queries
_BALANCE: Final = "/conta-corrente/v4/saldo"
_STATEMENT: Final = "/conta-corrente/v4/extrato/{month}/{year}"
_DIRECTIONS: Final = dict[str, Literal["IN", "OUT"]](CREDITO="IN", DEBITO="OUT")
_TEXT_MAX: Final = 200
_TEXTS: Final = ("descricao", "descInfComplementar", "numeroDocumento")
_WORDS: Final = list[tuple[str, port.ItemKind]](
    [
        ("TARIFA", "fee"),
        ("DEVOL", "refund"),
        ("PIX", "pix"),
        ("ESTORNO", "reversal"),
        ("JUDICIAL", "judicial"),
        ("BOLETO", "boleto"),
        ("COBRAN", "boleto"),
        ("TED", "wire"),
        ("TRANSF", "wire"),
    ]
)
"""A line's kind by a word of its texts. Inferred, as no source has a list; any other is ``other``."""


class SicoobInstitution(StandardInstitution):
    """Also the port ``FirstStep``."""

    @property
    def traits(self) -> port.InstitutionTraits:
        return structs.replace(
            super().traits,
            has_balance=True,
            # Statements need a number; without one reading would fail for ever, and block the recovery after a loss.
            has_statement=bool(self._account.account),
            # Its payments to accounts have one step, and only the answer has the name: if that is lost, no query is possible.
            sends=("KEY",),
            compares_owner=True,
            names_first=True,
            sends_at_once=self._account.sends_at_once,
            sends_per_s=min(self._account.sends_at_once / _OUTCOME_S, _SENDS_PER_S_MAX),
        )

    async def mint(self, pix: OutgoingPix) -> MintAnswer:
        key = pix.payee.key or ""
        # It moves nothing, so it may be repeated with a new token.
        answer = await self._sending.change(
            Call("send", "POST", _SENT, {"chave": key}, repeated_on=self._ended, patience_s=_PATIENCE_S)
        )
        if not isinstance(answer, Content):
            return port.NotSent(reason=answer.reason)
        if answer.status in _NO_SUCH_KEY:
            return port.CertainRefusal(code=answer.name, reason=self._sending.describe(answer), reject_code="CH16")
        if not answer.is_success:
            return port.NotSent(reason=self._sending.describe(answer))
        try:
            minted = decode_minted(answer.members, key)
        except wire.Malformed as error:
            return port.NotSent(reason=error.reason)
        # Fail before the second step is recorded as called: once recorded, it can only be queried.
        await self._sending.paces.wait("send", _PATIENCE_S)
        return minted

    async def send(self, pix: OutgoingPix) -> port.SendAnswer:
        if pix.code is None:
            return port.NotSent(reason="the first step has not named it")
        # Never repeated after any answer: even 403 for an expired token is queried.
        path, body = f"{_SENT}/confirmacao", write_confirmation(pix)
        change = Call("send", "POST", path, body, repeated_on=(), is_new=True, patience_s=_PATIENCE_S)
        sent = await obtain(
            self._sending,
            change,
            partial(decode_sent_pix, pix.name, pix.code),
            lambda answer: self._judge(answer, self._known.send_refusals, self._sending),
        )
        return sent or port.UnknownOutcome(reason="the institution answered that it was not done, which may be no end")

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        if code is None:
            return None  # Sicoob keeps none of our names
        content = await self._sending.read("sent", f"{_SENT}/{code}")
        return self._read_found(content, lambda: decode_sent_pix(name, code, content.members), self._sending)

    async def read_balance(self) -> int:
        content = await self._calls.read("account", _BALANCE, self._number())
        return self._read_required(content, lambda: wire.take_number_of_reais(_unwrap(content), "saldo"))

    async def list_statement(self, since: date, until: date) -> AsyncGenerator[Sequence[port.InstitutionItem | MalformedItem]]:
        # Without pages, a day is the smallest query.
        while since <= until:
            path = _STATEMENT.format(month=since.month, year=since.year)
            query = {"diaInicial": str(since.day), "diaFinal": str(since.day), **self._number()}
            content = await self._calls.read("statement", path, query, body_max=FILE_MAX)
            rows = self._read_required(content, lambda content=content: wire.take_rows(_unwrap(content), "transacoes"))
            yield _read_rows(rows)
            since += timedelta(days=1)

    async def _try_own(self) -> Sequence[port.PermissionTried]:
        return [await self._try("cco_consulta", "account", _BALANCE, self._number())]

    def _number(self) -> dict[str, str]:
        return {"numeroContaCorrente": self._account.account} if self._account.account else {}


def _unwrap(content: Content) -> Mapping[str, object]:
    return as_members(content.members.get("resultado")) or content.members


def _read_rows(rows: Sequence[object]) -> Sequence[port.InstitutionItem | MalformedItem]:
    seen = Counter[str]()
    items = wire.read_each(rows, _read_item)
    for place, item in enumerate(items):
        if isinstance(item, port.InstitutionItem):
            seen[item.item_id] += 1
            items[place] = structs.replace(item, item_id=f"{item.item_id}-{seen[item.item_id]}")
    return items


def _read_item(members: Mapping[str, object]) -> port.InstitutionItem:
    direction = _DIRECTIONS.get(wire.take_text(members, "tipo", 20))
    if direction is None:
        raise wire.Malformed("tipo is neither CREDITO nor DEBITO")
    cents = abs(wire.take_number_of_reais(members, "valor"))
    if not 1 <= cents <= AMOUNT_MAX_CENTS:
        raise wire.Malformed("valor is no amount that a line can have")
    posted_on, _ = wire.take_local_day(members, "dataLote", "data")
    _, instant = wire.take_local_day(members, "data", "dataLote")
    text = " ".join(filter(None, (wire.find_free_text(members, name, _TEXT_MAX) for name in _TEXTS)))
    name = wire.find_network_name(members, "transactionId")
    contents = "\x00".join((direction, str(cents), text, str(members.get("data"))))
    return port.InstitutionItem(
        item_id=f"{posted_on.isoformat()}-{hashlib.blake2b(contents.encode(), digest_size=12).hexdigest()}",
        day=posted_on,
        # At midnight it is a day alone, whose time may come later.
        settled_at=None if instant is None or instant == begin_of_day(instant) else instant,
        direction=direction,
        amount_cents=cents,
        kind=_find_kind(text, name),
        end_to_end_id=name,
        text=text[:_TEXT_MAX],
    )


def _find_kind(text: str, name: str | None) -> port.ItemKind:
    if name is not None:
        return "refund" if name.startswith("D") else "pix"
    words = text.upper()
    for word, kind in _WORDS:
        if word in words:
            return kind
    return "other"
