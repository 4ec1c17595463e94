"""The standard API as one table, with the standard's paths, scopes and types of refusals.

Operations of the standard that no feature offers are refused with ``AcessoNegado`` for any method, as the standard requires for
uncontracted ones.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, get_args

from pixconnect.doors.api.operation import Door, Method, Nothing
from pixconnect.features.due_charges import api as due_records
from pixconnect.features.locations.problem import GENERAL, Types, make_form
from pixconnect.features.pix_api.api import charge, charge_records, location, payment, webhook
from pixconnect.features.pix_api.api.frame import StandardOperation as Row
from pixconnect.features.pix_api.api.frame import is_of_the_door, list_door_routes, refuse_uncontracted
from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.kernel.feature import gather

_COB: Final = Types(missing="CobNaoEncontrado", invalid="CobOperacaoInvalida")
_COBV: Final = Types(missing="CobVNaoEncontrada", invalid="CobVOperacaoInvalida")
_COBV_ASKED: Final = Types(missing="CobVNaoEncontrada", invalid="CobVConsultaInvalida")
_LOC: Final = Types(missing="PayloadLocationNaoEncontrado", invalid="PayloadLocationOperacaoInvalida")
_WEBHOOK: Final = Types(missing="WebhookNaoEncontrado", invalid="WebhookOperacaoInvalida")

# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
SPOKEN: Final = (
    Row("cob.criar", "POST", "/cob", "cob.write", _COB,
        Nothing, charge_records.CobSolicitada, 201, charge_records.CobCompleta, charge.create_charge),
    Row("cob.criar_com_txid", "PUT", "/cob/{txid}", "cob.write", _COB,
        Nothing, charge_records.CobSolicitada, 201, charge_records.CobCompleta, charge.put_immediate_charge),
    Row("cob.revisar", "PATCH", "/cob/{txid}", "cob.write", _COB,
        Nothing, charge_records.CobRevisada, 200, charge_records.CobCompleta, charge.patch_immediate_charge),
    Row("cob.consultar", "GET", "/cob/{txid}", "cob.read", Types(missing="CobNaoEncontrado", invalid="CobConsultaInvalida"),
        charge_records.CobQuery, Nothing, 200, charge_records.CobCompleta, charge.get_charge),
    Row("cob.listar", "GET", "/cob", "cob.read", Types(invalid="CobConsultaInvalida"),
        charge_records.CobListQuery, Nothing, 200, charge_records.CobsConsultadas, charge.list_charges,
        may_be_old=True),
    Row("cobv.criar_com_txid", "PUT", "/cobv/{txid}", "cobv.write", _COBV,
        Nothing, due_records.CobVSolicitada, 201, due_records.CobVCompleta, charge.put_due_charge),
    Row("cobv.revisar", "PATCH", "/cobv/{txid}", "cobv.write", _COBV,
        Nothing, due_records.CobVRevisada, 200, due_records.CobVCompleta, charge.patch_due_charge),
    Row("cobv.consultar", "GET", "/cobv/{txid}", "cobv.read", _COBV_ASKED,
        charge_records.CobQuery, Nothing, 200, due_records.CobVCompleta, charge.get_due_charge),
    Row("cobv.listar", "GET", "/cobv", "cobv.read", Types(invalid="CobVConsultaInvalida"),
        due_records.CobVListQuery, Nothing, 200, due_records.CobsVConsultadas, charge.list_due_charges,
        may_be_old=True),
    *gather("standard_operations", Row),
    Row("loc.criar", "POST", "/loc", "payloadlocation.write", _LOC,
        Nothing, location.PayloadLocationSolicitada, 201, location.PayloadLocation, location.create_location),
    Row("loc.consultar", "GET", "/loc/{id}", "payloadlocation.read", _LOC,
        Nothing, Nothing, 200, location.PayloadLocation, location.get_location),
    Row("loc.listar", "GET", "/loc", "payloadlocation.read", Types(invalid="PayloadLocationConsultaInvalida"),
        location.LocListQuery, Nothing, 200, location.PayloadLocationConsultadas, location.list_locations),
    Row("loc.desvincular", "DELETE", "/loc/{id}/txid", "payloadlocation.write", _LOC,
        Nothing, Nothing, 200, location.PayloadLocation, location.unbind_location),
    Row("pix.consultar", "GET", "/pix/{e2eid}", "pix.read", Types(missing="PixNaoEncontrado", invalid="PixConsultaInvalida"),
        Nothing, Nothing, 200, standard_pix.Pix, payment.get_pix),
    Row("pix.listar", "GET", "/pix", "pix.read", Types(invalid="PixConsultaInvalida"),
        payment.PixQuery, Nothing, 200, payment.PixConsultados, payment.list_pix),
    Row("devolucao.solicitar", "PUT", "/pix/{e2eid}/devolucao/{id}", "pix.write",
        Types(missing="PixNaoEncontrado", invalid="PixDevolucaoInvalida"),
        Nothing, payment.DevolucaoSolicitada, 201, standard_pix.Devolucao, payment.put_refund),
    Row("devolucao.consultar", "GET", "/pix/{e2eid}/devolucao/{id}", "pix.read",
        Types(missing="PixDevolucaoNaoEncontrada", invalid="PixDevolucaoInvalida"),
        Nothing, Nothing, 200, standard_pix.Devolucao, payment.get_refund),
    Row("webhook.configurar", "PUT", "/webhook/{chave}", "webhook.write", _WEBHOOK,
        Nothing, webhook.WebhookSolicitado, 200, Nothing, webhook.put_webhook),
    Row("webhook.consultar", "GET", "/webhook/{chave}", "webhook.read", _WEBHOOK,
        Nothing, Nothing, 200, webhook.WebhookCompleto, webhook.get_webhook),
    Row("webhook.remover", "DELETE", "/webhook/{chave}", "webhook.write", _WEBHOOK,
        Nothing, Nothing, 204, Nothing, webhook.delete_webhook),
    Row("webhook.listar", "GET", "/webhook", "webhook.read", Types(invalid="WebhookConsultaInvalida"),
        webhook.WebhookListQuery, Nothing, 200, webhook.WebhooksConsultados, webhook.list_webhooks),
    # Not in the standard.
    Row("webhook.entregas", "GET", "/webhook/{chave}/entregas", "webhook.read", _WEBHOOK,
        webhook.EntregaListQuery, Nothing, 200, webhook.EntregasConsultadas, webhook.list_deliveries),
    Row("webhook.entregas.reenviar", "POST", "/webhook/{chave}/entregas/{id}/reenvio", "webhook.write", _WEBHOOK,
        Nothing, Nothing, 200, webhook.Entrega, webhook.redeliver),
    Row("webhook.reenviar", "POST", "/webhook/{chave}/reenvio", "webhook.write", _WEBHOOK,
        Nothing, webhook.ReenvioSolicitado, 200, webhook.Reenvio, webhook.replay),
)
"""Available operations."""

_OF_FEATURES: Final = (
    "/lotecobv", "/lotecobv/{id}", "/rec", "/rec/{idRec}", "/solicrec", "/solicrec/{idSolicRec}",
    "/cobr", "/cobr/{txid}", "/cobr/{txid}/retentativa/{data}",
    "/locrec", "/locrec/{id}", "/locrec/{id}/idRec", "/webhookrec", "/webhookcobr",
)
# fmt: on
"""The standard's paths that only ``standard_operations`` can offer."""


def with_refusals(spoken: Sequence[Row]) -> tuple[Row, ...]:
    """Add the refusals at the standard's paths that no operation has."""
    missing = [path for path in _OF_FEATURES if path not in {row.path for row in spoken}]
    row = partial(Row, "nao_contratado", scope="any", types=GENERAL, query=Nothing, body=Nothing, status=200, answer=Nothing)
    return (*spoken, *(row(method, path, handler=refuse_uncontracted) for path in missing for method in get_args(Method)))


OPERATIONS: Final = with_refusals(SPOKEN)
"""All of them."""
_PROBLEMS: Final = make_form(GENERAL)
DOORS: Final = (
    Door(
        list_routes=lambda: (*location.DUE_PAYLOADS, *list_door_routes(OPERATIONS)),
        find_form=lambda path: _PROBLEMS if is_of_the_door(path) else None,
    ),
)
