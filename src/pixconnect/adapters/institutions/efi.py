"""Efi beside the standard: its balance, the file of a day that is over, and webhooks without client certificates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from msgspec import structs

from pixconnect.adapters.institutions.calls import ChangingCall
from pixconnect.adapters.institutions.message import Content
from pixconnect.adapters.institutions.standard import StandardInstitution
from pixconnect.adapters.institutions.wire import take_reais, take_text
from pixconnect.domain.institutions.institution import (
    DayFiles,
    InstitutionTraits,
    InstitutionUnavailable,
    PermissionTried,
)

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
        return structs.replace(super().traits, has_balance=True)

    @property
    def day_files(self) -> DayFiles | None:
        return self

    async def read_balance(self) -> int:
        # Whether blocked money is in it no source says.
        content = await self._calls.read("account", _BALANCE)
        return self._read_required(content, lambda: take_reais(content.members, "saldo", is_balance=True))

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
