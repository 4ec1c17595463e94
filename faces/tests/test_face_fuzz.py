"""Random requests to every operation of every simulated bank: never 5xx, and never another API's form."""

import copy
import random
from collections.abc import Sequence
from typing import Any, Final

import pytest

from faces.tests.test_efi import ACCOUNT, COB, SEND, Face, nome, open_face
from faces.tests.test_sicoob import CONFIRM, MANUAL
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect_faces.api import TABLES
from pixconnect_faces.frame import open_faces
from support.faces import KEY, PAYEE, Bank

_ROUNDS: Final = 12
_LEAVES: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1.5, 10**30, "", "0.01", "10.00", "-1.00", "1e3", "99999999999.99", KEY, PAYEE, "x" * 300, "\x00",
    "\ud800", "2026-02-30T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2020-01-01", "12345678909", [], [None], {},
)  # fmt: skip
_MEMBERS: Final = (
    "valor", "original", "chave", "calendario", "expiracao", "dataDeVencimento", "pagador", "infoPagador", "favorecido",
    "contaBanco", "cpf", "cnpj", "tipoConta", "pixCopiaECola", "webhookUrl", "loc", "id", "tipoCob", "status", "devedor",
    "nome", "solicitacaoPagador", "infoAdicionais", "dataMovimento", "tipoRegistros", "unheard of", "endToEndId", "destino",
    "meioIniciacao", "origem", "qrcode", "repeticao", "descricao", "dataAgendamento", "correlationID", "value", "customer",
    "taxID", "additionalInfo", "expiresIn", "expiresDate", "destinationAlias", "autoApprove", "psp", "holder", "account",
    "type", "webhook", "event", "url", "authorization", "isActive", "pixKey", "comment",
)  # fmt: skip
CODE: Final[dict[str, Any]] = {
    "qrcode": format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=1), "valor": "0.01", "repeticao": False,
    "pagarComJurosMulta": False, "origem": MANUAL, "destino": {"cpfCnpj": "12345678909"},
}  # fmt: skip
_QUERY: Final = (
    "inicio=2020-01-01T00:00:00Z", "fim=2099-01-01T00:00:00Z", "fim=0001-01-01T00:00:00Z", "inicio=%00", "fim=+", "txid=%ff",
    "paginacao.itensPorPagina=0", "paginacao.itensPorPagina=1000", "paginacao.paginaAtual=2147483647", "status=X", "cpf=1",
    "paginacao.paginaAtual=99999999999999999999", "bloqueios=true", "&&", "=", "cnpj=12345678000195", "txIdPresente=x",
    "numeroContaCorrente=1001", "numeroContaCorrente=x", "diaInicial=31", "diaFinal=0", "agruparCNAB=1", "largura=9",
    "skip=1", "skip=-1", "limit=0", "limit=3", "start=2020-01-01T00:00:00Z", "end=0001-01-01T00:00:00Z", "end=x", "charge=%00",
    "withdrawal=%00", "withdrawal=E1", "type=FEE", "type=WITHDRAW", "transactionID=a", "return_existing=true", "url=%ff",
)  # fmt: skip
_BODIES: Final[tuple[dict[str, Any], ...]] = (
    SEND, COB, {"valor": "0.01"}, {"webhookUrl": "http://127.0.0.1:9/"}, {**SEND, "favorecido": {"contaBanco": ACCOUNT}},
    {"pagador": {"chave": KEY}, "pixCopiaECola": format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=1)},
    {"dataMovimento": "2026-01-01", "tipoRegistros": {}}, {"chave": PAYEE}, CONFIRM | {"endToEndId": "E" * 32},
    CONFIRM | {"meioIniciacao": "MANUAL", "destino": MANUAL, "repeticao": True}, CODE,
)  # fmt: skip
_PIECES: Final = (
    "a1", "%00", "%ff%fe", "0", "-1", "9" * 40, "x" * 300, "E99999004202611201234a1B2c3D4e5F", "%F0%9F%98%80", "..",
)  # fmt: skip


def _make_value(chance: random.Random, depth: int = 0) -> Any:
    if depth > 3 or chance.random() < 0.3:
        return chance.choice(_LEAVES)
    if chance.random() < 0.1:
        return [_make_value(chance, depth + 1) for _ in range(chance.randrange(3))]
    if depth and chance.random() < 0.2:
        return {name: chance.choice((value, _make_value(chance, 4))) for name, value in ACCOUNT.items()}
    return {chance.choice(_MEMBERS): _make_value(chance, depth + 1) for _ in range(chance.randrange(1, 6))}


def make_body(chance: random.Random, bodies: Sequence[dict[str, Any]] = _BODIES) -> Any:
    """Any JSON, or a valid body with one changed or additional member."""
    if chance.random() < 0.3:
        return _make_value(chance)
    body = copy.deepcopy(chance.choice(bodies))
    inner = chance.choice([body, *(value for value in body.values() if isinstance(value, dict))])
    inner[chance.choice([*inner, chance.choice(_MEMBERS)])] = _make_value(chance, 1)
    return body


def fill_path(chance: random.Random, path: str) -> str:
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + chance.choice(_PIECES) + rest.partition("}")[2]
    return path


def make_query(chance: random.Random) -> str:
    return "&".join(chance.choices(_QUERY, k=chance.randrange(4)))


async def _ask(name: str, face: Face, chance: random.Random, method: str, path: str) -> None:
    path, query = fill_path(chance, path), make_query(chance)
    body = None if method in ("GET", "DELETE") else make_body(chance)
    answer = await face.call(method, f"{path}?{query}", body)
    asked = (method, path, query, body, answer)
    if answer.status == 500 and name == "efi":
        # Efi's answer for features that are off in its test environment.
        assert nome(answer)[1] in ("QrcodeErroInterno", "InfracaoErroInterno", "erro_interno_servidor"), asked
    assert answer.status <= (500 if name == "efi" else 499), asked
    if answer.status >= 400:
        assert is_in_their_form(name, answer.body), asked


def is_in_their_form(name: str, body: dict[str, Any]) -> bool:
    """Whether a body has the required members of one of the profile's forms, and no unknown ones."""
    return any(
        body.keys() <= form.body.keys() and form.body.keys() - body.keys() <= {"erros", "violacoes"}
        for form in read_profile(name).forms.values()
    )


@pytest.mark.parametrize("of", [0, 1], ids=["", "homologation"])
@pytest.mark.parametrize("name", ["efi", "inter", "sicoob", "sicredi"])
async def test_no_request_is_answered_by_5xx_or_in_another_form(bank: Bank, name: str, of: int) -> None:
    chance = random.Random(20 + of)  # noqa: S311  the same requests in each run
    opened = open_faces(name)[of]
    face = await open_face(bank, opened.name)
    if name == "efi":
        await face.set_webhook(bank)
    rows = TABLES[name](opened)
    for _ in range(_ROUNDS):
        for row in rows:
            await _ask(name, face, chance, row.method, row.path)
    for path in ("/", "/v1/connect/charge/list", "/pix/v2/cob", "/v2/gn/saldo", "/%ff"):
        for method in ("GET", "POST", "PATCH"):
            await _ask(name, face, chance, method, path)
