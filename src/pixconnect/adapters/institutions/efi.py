"""Efi beside the standard: sending, its balance, the file of a day that is over, and webhooks without client certificates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import structs

from pixconnect.adapters.institutions.calls import ChangingCall
from pixconnect.adapters.institutions.efi_records import decode_sent, write_payee
from pixconnect.adapters.institutions.message import Content
from pixconnect.adapters.institutions.standard import StandardInstitution
from pixconnect.adapters.institutions.wire import Malformed, take_reais, take_text
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.institutions.institution import (
    CertainRefusal,
    DayFiles,
    InstitutionTraits,
    InstitutionUnavailable,
    NotSent,
    PermissionTried,
    SendAnswer,
    UnknownOutcome,
)
from pixconnect.domain.institutions.rail_memory import OutgoingPix, SentPix

_SEND: Final = "/v3/gn/pix"
_SENT: Final = "/v2/gn/pix/enviados/id-envio"
_RESENT_FOR: Final = timedelta(hours=12)
_OUTCOME_S: Final = 3.0
"""About so long an order takes until we know how it ended."""
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
"""All records of the file, each switched by its name."""


class EfiInstitution(StandardInstitution):
    """The ports ``Institution`` and ``DayFiles``."""

    @property
    def traits(self) -> InstitutionTraits:
        return structs.replace(
            super().traits,
            has_balance=True,
            sends=("KEY", "MANUAL"),
            compares_owner=True,
            # A name that was used is refused (409), whatever is asked under it.
            resend_for=_RESENT_FOR,
            sends_at_once=self._in_flight,
            sends_per_s=self._in_flight / _OUTCOME_S,
        )

    @property
    def day_files(self) -> DayFiles | None:
        return self

    async def read_balance(self) -> int:
        # Whether blocked money is in it no source says.
        content = await self._calls.read("account", _BALANCE)
        return self._read_required(content, lambda: take_reais(content.members, "saldo", is_balance=True))

    async def send(self, pix: OutgoingPix) -> SendAnswer:
        if pix.payer_key is None:
            return NotSent(reason="keys: the account has no key to pay by")
        payee = write_payee(pix)
        if payee is None:
            # Certain, since nothing is sent at all.
            return CertainRefusal(code="tipoConta", reason="Efi pays to no account of this type", reject_code="AC14")
        payer = {"chave": pix.payer_key}
        if pix.payer_message:
            payer["infoPagador"] = pix.payer_message
        answer = await self._calls.change(
            ChangingCall(
                route="send",
                method="PUT",
                path=f"{_SEND}/{pix.name}",
                body={"valor": format_reais(pix.amount_cents), "pagador": payer, "favorecido": payee},
                # Under the same name a second one is refused and not done, so a token that had ended is no reason to leave it.
                repeated_on=self._ended,
                is_on_new_connection=True,
            )
        )
        if not isinstance(answer, Content):
            return answer
        if not answer.is_success:
            return self._judge(answer, self._known.send_refusals)
        try:
            sent = decode_sent(answer.members)
        except Malformed as error:
            return UnknownOutcome(reason=error.reason)
        if (sent.name, sent.amount_cents) != (pix.name, pix.amount_cents):
            return UnknownOutcome(reason="the institution answered another Pix than we sent")
        return sent

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        content = await self._calls.read("sent", f"{_SENT}/{name}")
        sent = self._read_found(content, lambda: decode_sent(content.members))
        if sent is not None and sent.name != name:
            raise InstitutionUnavailable("the institution answered another Pix than we asked for")
        return sent

    async def request_day_file(self, day: date) -> str:
        body = {"dataMovimento": day.isoformat(), "tipoRegistros": dict.fromkeys(_RECORDS, True)}
        path = f"{_REPORTS}/extrato-conciliacao"
        answer = await self._calls.change(
            ChangingCall(route="statement", method="POST", path=path, body=body, repeated_on=self._ended)
        )
        if not isinstance(answer, Content):
            raise InstitutionUnavailable(answer.reason)
        return self._read_required(answer, lambda: take_text(answer.members, "id", 100, form=_NAME))

    async def fetch_day_file(self, name: str) -> bytes | None:
        status, octets = await self._calls.fetch("statement", f"{_REPORTS}/{name}")
        if status in (200, 202):
            return octets if status == 200 else None
        raise InstitutionUnavailable(f"the institution answered {status} for the file of a day")

    def _webhook_headers(self) -> Mapping[str, str]:
        has_mtls = self._account.options.get("webhook_mtls") is True
        return {"x-skip-mtls-checking": str(not has_mtls).lower()}

    async def _try_own(self) -> Sequence[PermissionTried]:
        return [await self._try("gn.balance.read", "account", _BALANCE)]
