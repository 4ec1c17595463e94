"""Efi's additions to the standard: sending, its balance, the file of a past day, and webhooks without client certificates.

A static code is the same for every payer. A dynamic code's contents stand at its location, where its payee may change them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.calls import Call, obtain
from pixconnect.features.institutions.adapters.efi_contests import EfiContests
from pixconnect.features.institutions.adapters.message import Content, as_list, as_members
from pixconnect.features.institutions.adapters.standard import PagedList, StandardInstitution, list_rows
from pixconnect.features.institutions.adapters.wire import take_reais, take_text
from pixconnect.features.institutions.profiles.account_traits import CertainAnswer
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.account import abilities_of
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentReturn, SentReturns, SentStatus
from pixconnect.features.institutions.rules.sweep import Contests, MalformedItem
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.tax_id import is_cpf

_SENT_NAME: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_ACCOUNT_TYPES: Final = dict(CHECKING="cacc", SAVINGS="svgs")
_SENT_WORDS: Final = dict[str, SentStatus](EM_PROCESSAMENTO="under_way", REALIZADO="settled", NAO_REALIZADO="refused")


def write_payee(pix: OutgoingPix) -> dict[str, object] | None:
    """Write the member ``favorecido``; ``None`` if it has no form for such an account."""
    payee = pix.payee
    if pix.is_by_key:
        # With the owner given, Efi refuses a key of another owner.
        owner = {} if payee.tax_id == UNKNOWN_PARTY.tax_id else _write_owner(payee)
        return {"chave": payee.key, **owner}
    kind = _ACCOUNT_TYPES.get(payee.account_type)
    if kind is None:
        return None
    account = dict(codigoBanco=payee.ispb, agencia=payee.branch, conta=payee.account_number, tipoConta=kind)
    return {"contaBanco": {"nome": payee.name, **_write_owner(payee), **account}}


def _write_owner(payee: Party) -> dict[str, str]:
    return {"cpf" if is_cpf(payee.tax_id) else "cnpj": payee.tax_id}


def decode_sent(members: Mapping[str, object]) -> SentPix:
    """Read a sent Pix, from the answer to its PUT or from a query; ``Malformed`` if any of it is unreliable."""
    status = wire.take_status(members, _SENT_WORDS)
    instants = wire.take_members(members, "horario")
    payee = as_members(members.get("favorecido")) or {}
    owner = wire.find_first(payee, "identificacao", "contaBanco")
    # The documentation and the library have two names for it.
    name = "e2eId" if "e2eId" in members else "endToEndId"
    return SentPix(
        name=wire.take_text(members, "idEnvio", 35, form=_SENT_NAME),
        end_to_end_id=wire.take_end_to_end_id(members, name),
        amount_cents=wire.take_reais(members, "valor"),
        status=status,
        # It may precede the request by a second: their instants are not ordered.
        settled_at=wire.find_instant(instants, "liquidacao") if status == "settled" else None,
        payee=wire.find_whole_key(payee, "chave"),
        paid=wire.find_listed_payee(
            owner, name="nome", tax_id="cpf,cnpj", ispb="codigoBanco", branch="agencia", account_number="conta"
        ),
        returns=[each for each in read_returns(members) if isinstance(each, SentReturn)],
    )


def read_returns(row: object) -> Sequence[SentReturn | MalformedItem]:
    """Read the returns of a sent Pix, and the unreadable ones for people."""
    members = as_members(row) or {}
    listed = members.get("devolucoes")
    if listed is None:
        return ()
    found = list[SentReturn | MalformedItem]()
    for returned in as_list(listed) or (None,):
        try:
            found.append(_decode_return(wire.take_end_to_end_id(members, "endToEndId"), as_members(returned) or {}))
        except wire.Malformed as error:
            found.append(wire.as_malformed({**members, "devolucoes": returned}, f"devolucoes: {error.reason}"))
    return found


def _decode_return(end_to_end_id: str, members: Mapping[str, object]) -> SentReturn:
    return_id = wire.find_return_id(members, "rtrId")
    if return_id is None:
        raise wire.Malformed("rtrId is missing")
    return SentReturn(
        end_to_end_id=end_to_end_id,
        return_id=return_id,
        amount_cents=wire.take_reais(members, "valor"),
        settled_at=wire.take_instant(members, "horario"),
    )


def is_static(code: str) -> bool:
    return parse_br_code(code).kind == "static"


def decode_code(members: Mapping[str, object]) -> tuple[bool, str | None, int, str]:
    """Read whether a code can be paid, its key, cents and txid; ``Malformed`` if any of them is unreliable."""
    amounts = wire.take_members(members, "valor")
    # The documentation has one, and the library the other.
    amount = "final" if "final" in amounts else "original"
    key, cents = wire.find_whole_key(members, "chave"), wire.take_reais(amounts, amount)
    # An unknown word does not permit a payment.
    return wire.take_text(members, "status", 40) == "ATIVA", key, cents, wire.take_text(members, "txid", 35)


_SEND: Final = "/v3/gn/pix"
_CODE: Final = "/v2/gn/qrcodes/detalhar"
_CODE_SEND: Final = "/v2/gn/pix/{name}/qrcode"
_LISTED: Final = "/v2/gn/pix/enviados"
_RETURNED: Final = PagedList(route="sent", path=_LISTED, query={"devolucaoPresente": "true"})
_SENT: Final = f"{_LISTED}/id-envio"
_RESENT_FOR: Final = timedelta(hours=12)
_OUTCOME_S: Final = 3.0  # usual time until an order's outcome is known
_BALANCE: Final = "/v2/gn/saldo"
_REPORTS: Final = "/v2/gn/relatorios"
_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_RECORDS: Final = (
    "pixRecebido",
    "pixEnviadoChave",
    "pixEnviadoDadosBancarios",
    "estornoPixEnviado",
    "pixDevolucaoEnviada",
    "pixDevolucaoRecebida",
    "tarifaPixRecebido",
    "tarifaPixEnviado",
    "estornoTarifaPixEnviado",
    "saldoDiaAnterior",
    "saldoDia",
    "transferenciaEnviada",
    "transferenciaRecebida",
    "estornoTransferenciaEnviada",
    "tarifaTransferenciaEnviada",
    "estornoTarifaTransferenciaEnviada",
)
"""All records of the file, each selected by its name."""


class EfiInstitution(StandardInstitution):
    """Also the ports ``DayFiles`` and ``SentReturns``."""

    @property
    def traits(self) -> port.InstitutionTraits:
        return structs.replace(
            super().traits,
            has_balance=True,
            # Its test environment does not pay codes.
            sends=("KEY", "MANUAL") if self._account.environment == "homologation" else ("KEY", "MANUAL", "QRCODE"),
            compares_owner=True,
            # A used name is refused (409), with any contents.
            resend_for=_RESENT_FOR,
            sends_at_once=self._account.sends_at_once,
            sends_per_s=self._account.sends_at_once / _OUTCOME_S,
        )

    @property
    def day_files(self) -> port.DayFiles | None:
        return self

    @property
    def contests(self) -> Contests | None:
        length_max = abilities_of(self._account).defence_length_max
        return EfiContests(self._calls, self._clock, length_max) if length_max else None

    async def read_balance(self) -> int:
        content = await self._calls.read("account", _BALANCE)
        return self._read_required(content, lambda: take_reais(content.members, "saldo", is_balance=True))

    async def send(self, pix: OutgoingPix) -> port.SendAnswer:
        if pix.payer_key is None:
            return port.NotSent(reason="keys: the account has no key to pay by")
        payer = {"chave": pix.payer_key}
        if pix.payer_message:
            payer["infoPagador"] = pix.payer_message
        if pix.br_code is not None:
            return await self._pay_code(pix, pix.br_code, payer)
        payee = write_payee(pix)
        if payee is None:
            return port.CertainRefusal(code="tipoConta", reason="Efi pays to no account of this type", reject_code="AC14")
        body = {"valor": format_reais(pix.amount_cents), "pagador": payer, "favorecido": payee}
        return await self._put(pix, f"{_SEND}/{pix.name}", body, self._known.send_refusals)

    async def _pay_code(self, pix: OutgoingPix, code: str, payer: Mapping[str, str]) -> port.SendAnswer:
        # The call pays the code's present contents, without an amount: the payee could raise it meanwhile.
        changed = None if is_static(code) else await self._read_changed(pix, code)
        path = _CODE_SEND.format(name=pix.name)
        return changed or await self._put(pix, path, {"pagador": payer, "pixCopiaECola": code}, self._code_refusals)

    async def _read_changed(self, pix: OutgoingPix, code: str) -> port.CertainRefusal | port.NotSent | None:
        """Find why a dynamic code must not be paid, by reading it at Efi; that moves nothing."""
        change = Call("send", "POST", _CODE, {"pixCopiaECola": code}, repeated_on=self._ended, not_after_s=pix.not_after_s)
        read = await obtain(self._calls, change, decode_code, lambda answer: self._judge(answer, self._code_refusals))
        if isinstance(read, port.NotSent | port.UnknownOutcome):
            return port.NotSent(reason=read.reason)
        if isinstance(read, port.CertainRefusal):
            return read
        if read == (True, pix.payee.key, pix.amount_cents, pix.txid):
            return None
        reason = "the code asks for something else than when the transfer was accepted, or is paid or over"
        return port.CertainRefusal(code="pixCopiaECola", reason=reason, reject_code=reject_code.QR_CODE_REFUSED)

    async def _put(
        self, pix: OutgoingPix, path: str, body: Mapping[str, object], refusals: Sequence[CertainAnswer]
    ) -> port.SendAnswer:
        # A second one under the same name is refused and not done, so it may be repeated after an expired token.
        change = Call("send", "PUT", path, body, repeated_on=self._ended, is_new=True, not_after_s=pix.not_after_s)
        sent = await obtain(self._calls, change, decode_sent, lambda answer: self._judge(answer, refusals))
        if isinstance(sent, SentPix) and (sent.name, sent.amount_cents) != (pix.name, pix.amount_cents):
            return port.UnknownOutcome(reason="the institution answered another Pix than we sent")
        return sent

    @property
    def _code_refusals(self) -> Sequence[CertainAnswer]:
        return (*self._known.send_refusals, *self._known.code_refusals)

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        content = await self._calls.read("sent", f"{_SENT}/{name}")
        sent = self._read_found(content, lambda: decode_sent(content.members))
        if sent is not None and sent.name != name:
            raise port.InstitutionUnavailable("the institution answered another Pix than we asked for")
        return sent

    @property
    def sent_returns(self) -> SentReturns | None:
        return self

    async def list_returns(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[SentReturn | MalformedItem]]:
        async for rows in list_rows(self._calls, _RETURNED, since, until):
            yield wire.bound_malformed([item for row in rows for item in read_returns(row)])

    async def request_day_file(self, day: date) -> str:
        body = {"dataMovimento": day.isoformat(), "tipoRegistros": dict.fromkeys(_RECORDS, True)}
        path = f"{_REPORTS}/extrato-conciliacao"
        answer = await self._calls.change(Call("statement", "POST", path, body, repeated_on=self._ended))
        if not isinstance(answer, Content):
            raise port.InstitutionUnavailable(answer.reason)
        return self._read_required(answer, lambda: take_text(answer.members, "id", 100, form=_NAME))

    async def fetch_day_file(self, name: str) -> bytes | None:
        status, octets = await self._calls.fetch("statement", f"{_REPORTS}/{name}")
        if status in (200, 202):
            return octets if status == 200 else None
        raise port.InstitutionUnavailable(f"the institution answered {status} for the file of a day")

    def _webhook_headers(self) -> Mapping[str, str]:
        has_mtls = self._account.options.get("webhook_mtls") is True
        return {"x-skip-mtls-checking": str(not has_mtls).lower()}

    async def _try_own(self) -> Sequence[port.PermissionTried]:
        return [await self._try("gn.balance.read", "account", _BALANCE)]
