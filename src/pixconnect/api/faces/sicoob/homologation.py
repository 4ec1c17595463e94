"""What Sicoob's own test environment does: it answers the same to each first step, and refuses each second one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from pixconnect.api.faces.frame import Face, FaceOperation, FaceResponder
from pixconnect.api.faces.sicoob.send import Iniciacao, Proprietario
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.frame.violation import Violated, Violation

_ALWAYS: Final = Iniciacao(
    end_to_end_id="stringstringstringstringstringst",
    chave="28133847044",
    tipo="CPF",
    proprietario=Proprietario(tipo="FISICO", nome="nome", identificador="28133847044"),
)


async def _initiate_nothing(face: Face, services: Services, request: Asked) -> Reply:
    request.body.require("pagamento")
    return Reply(status=200, record=_ALWAYS)


async def _refuse(face: Face, services: Services, request: Asked) -> Reply:
    reason = "Dados do campo 'origem' precisam ser preenchidos manualmente."
    raise Violated("pagamento", [Violation(property="origem", reason=reason)])


_INSTEAD: Final[Mapping[str, FaceResponder]] = {
    "pagamentos.iniciar": _initiate_nothing,
    "pagamentos.confirmar": _refuse,
}


def send_nothing(rows: Sequence[FaceOperation]) -> list[FaceOperation]:
    return [structs.replace(row, handler=_INSTEAD.get(row.id, row.handler)) for row in rows]
