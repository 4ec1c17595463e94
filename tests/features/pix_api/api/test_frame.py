"""The central bank's API: its paths, the order of its checks, and its problem documents."""

from unittest.mock import Mock

import pytest

from pixconnect.features.locations.problem import TYPE_PREFIX, MalformedRequest
from pixconnect.features.pix_api.api.frame import Query
from pixconnect.features.pix_api.api.operations import OPERATIONS, SPOKEN, with_refusals
from pixconnect.features.pix_api.service.pix import Pix
from pixconnect.platform.base import errors
from support.api import Answer, Api, UseCases

E2E = "E99999004202611201234a1B2c3D4e5F"
PIX = Pix(end_to_end_id=E2E, valor="10.00", horario="2026-11-21T05:06:07.123Z")
TOO_LARGE = b"x" * (64 * 1024 + 1)


@pytest.fixture(autouse=True)
def _answers(standard_use_cases: UseCases) -> None:
    standard_use_cases.answers["read_pix"] = lambda *_: PIX


def kind(answer: Answer) -> str:
    """The type of a problem, after a check of its form."""
    problem = answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == problem["correlationId"]
    assert problem["status"] == answer.status
    assert problem["title"]
    assert problem["detail"]
    assert "success" not in problem
    return problem["type"].removeprefix(TYPE_PREFIX)


@pytest.mark.parametrize("prefix", ["/pix/v2", "/v2"])
@pytest.mark.parametrize("end", ["", "/"])
async def test_the_door_is_at_both_prefixes_and_forgives_a_slash(api: Api, prefix: str, end: str) -> None:
    answer = await api.get(f"{prefix}/pix/{E2E}{end}?ignorado=1")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.body == {"endToEndId": E2E, "valor": "10.00", "horario": "2026-11-21T05:06:07.123Z"}


async def test_head_get_and_delete_may_declare_a_content_type(api: Api) -> None:
    for method in ("GET", "HEAD"):
        answer = await api.call(method, f"/v2/pix/{E2E}", headers={"content-type": "application/json", "client_id": "x"})
        assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "target", "token", "status", "expected"),
    [
        ("GET", "/v2/nada", None, 404, "NaoEncontrado"),
        ("GET", "/pix/v2", None, 404, "NaoEncontrado"),
        ("GET", "/v2/", None, 404, "NaoEncontrado"),
        ("GET", f"/v2//pix/{E2E}", None, 404, "NaoEncontrado"),
        ("GET", f"/v2/pix/{E2E}//", None, 404, "NaoEncontrado"),
        ("DELETE", f"/v2/pix/{E2E}", None, 405, "about:blank"),
        ("GET", f"/v2/pix/{E2E}", None, 401, "about:blank"),
        ("GET", f"/v2/pix/{E2E}", "poor", 403, "AcessoNegado"),
        ("GET", "/v2/pix/curto", "good", 404, "PixNaoEncontrado"),
        ("GET", "/v2/pix/%FF", "good", 404, "PixNaoEncontrado"),
        ("GET", "/v2/rec", None, 401, "about:blank"),
        ("GET", "/v2/rec/", "good", 403, "AcessoNegado"),
        ("PUT", "/pix/v2/rec/x", "good", 403, "AcessoNegado"),
        ("POST", "/pix/v2/cobr/x/retentativa/2026-01-01", "good", 403, "AcessoNegado"),
        ("DELETE", "/pix/v2/locrec/1/idRec", "good", 403, "AcessoNegado"),
        ("PATCH", "/pix/v2/webhookcobr", "good", 403, "AcessoNegado"),
    ],
)
async def test_refusals_in_their_order(
    api: Api, method: str, target: str, token: str | None, status: int, expected: str
) -> None:
    answer = await api.call(method, target, TOO_LARGE if method in {"PUT", "POST"} else b"", token=token)
    assert (answer.status, kind(answer)) == (status, expected)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    if status == 405:
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("target", ["/v1/qr/nothing", "/v1/qr/cobv/nothing"])
async def test_a_location_at_which_nothing_is_served_is_told_as_the_standard_does(api: Api, target: str) -> None:
    answer = await api.get(target)
    assert (answer.status, kind(answer)) == (404, "CobPayloadNaoEncontrado")


@pytest.mark.parametrize("target", ["/v1/nada", "/v2x/pix", "/pix", "/pix/v3/pix", "/pix/v2x", "/v2/connect/charge"])
async def test_other_paths_keep_the_envelope(api: Api, target: str) -> None:
    answer = await api.get(target)
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (errors.InternalError("x"), 500, "ErroInternoDoServidor"),
        (ValueError("a defect"), 500, "ErroInternoDoServidor"),
        (errors.ServiceUnavailable("x", 7), 503, "ServicoIndisponivel"),
        (errors.OutcomeUnknown("x"), 504, "IndisponibilidadePorTempoEsgotado"),
        (errors.RateLimited("x", 5), 429, "about:blank"),
        (errors.LimitExceeded("x"), 400, "PixConsultaInvalida"),
        (errors.ExternalIdConflict("x"), 400, "PixConsultaInvalida"),
        (MalformedRequest("x"), 400, "RequisicaoInvalida"),
    ],
)
async def test_every_error_has_its_type(
    api: Api, standard_use_cases: UseCases, error: Exception, status: int, expected: str
) -> None:
    standard_use_cases.answers["read_pix"] = Mock(side_effect=error)
    answer = await api.get(f"/v2/pix/{E2E}")
    assert (answer.status, kind(answer)) == (status, expected)
    assert b" x" not in answer.content or status == 400
    assert ("retry-after" in answer.headers) == (status in {429, 503})


@pytest.mark.parametrize("may_be_done", [True, False])
async def test_certainly_nothing_done_is_said_so(api: Api, standard_use_cases: UseCases, *, may_be_done: bool) -> None:
    standard_use_cases.answers["read_pix"] = Mock(side_effect=errors.ServiceUnavailable("x", may_be_done=may_be_done))
    detail = (await api.get(f"/v2/pix/{E2E}")).body["detail"]
    assert ("nada foi feito" in detail, "pode ter sido feita antes" in detail) == (not may_be_done, may_be_done)


async def test_an_unanswered_caller_is_told_the_txid_to_repeat(api: Api, standard_use_cases: UseCases) -> None:
    standard_use_cases.answers["read_pix"] = Mock(side_effect=errors.OutcomeUnknown("x", "a" * 32))
    answer = await api.get(f"/v2/pix/{E2E}")
    assert answer.status == 504
    assert f"O txid dela é {'a' * 32}: repita a requisição com PUT" in answer.body["detail"]


def test_a_query_is_read_as_it_is_asked_for() -> None:
    query = Query(b"a=1%2B2+3&b=x&paginacao.itensPorPagina=500&b=y&c=%FF&%61b=2")
    assert query.read(["a", "ab", "z"]) == {"a": "1+2+3", "ab": "2"}
    assert query.page_size == 500
    for raw in (b"paginacao%2EitensPorPagina=1000", b"paginacao.itensPorPagina=%31000"):
        assert Query(raw).page_size == 1000
    for raw in (b"", b"paginacao.itensPorPagina=%FF", b"paginacao.itensPorPagina=2&paginacao.itensPorPagina=1000"):
        assert Query(raw).page_size == 0
    for name in "bc":
        with pytest.raises(MalformedRequest):
            query.read([name])


def test_every_operation_is_told_apart_in_metrics() -> None:
    # All operations that are not offered count as one, however many paths there are.
    assert len({(row.id, row.method, row.path) for row in OPERATIONS}) == len(OPERATIONS)
    for row in OPERATIONS:
        assert row.id == "nao_contratado" or sum(other.id == row.id for other in OPERATIONS) == 1, row.id


def test_paths_of_the_standard_that_no_feature_has_are_refused() -> None:
    left = [row for row in SPOKEN if row.id not in {"lotecobv.listar", "cob.listar"}]
    refused = {row.path for row in with_refusals(left) if row.id == "nao_contratado"}
    assert "/lotecobv" in refused
    assert refused.isdisjoint(row.path for row in left)
