"""The standard API as OpenAPI 3.0.3, like the standard's own document: generated from the table and its records.

Contradictions of the standard's document are corrected; ``docs/reference/pix-api.md`` lists them.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from pixconnect.doors.api.operation import Nothing
from pixconnect.features.documentation.records import (
    Schema,
    convert_part,
    describe_query,
    describe_structs,
    described,
    parameter,
    split_docstring,
    to_schema,
    typed,
)
from pixconnect.features.locations import problem
from pixconnect.features.pix_api.api.frame import PREFIXES, StandardOperation

_DESCRIPTION: Final = """\
A API Pix do Banco Central, versão 2.9.0, como este serviço a implementa: cobranças imediatas e com vencimento, lotes,
locations, Pix recebidos, devoluções e webhooks. Instantes são UTC com três decimais; valores são textos com dois. Campos e
parâmetros desconhecidos são ignorados, e todos os erros de uma requisição vêm de uma vez em `violacoes`.
"""
_TAGS: Final = dict(
    cob="Cobranças imediatas.",
    cobv="Cobranças com vencimento.",
    loc="Locations: os endereços dos payloads dos QR Codes.",
    pix="Pix recebidos.",
    devolucao="Devoluções de Pix recebidos.",
    webhook="Avisos de Pix recebidos.",
)
_END_TO_END_ID: Final = ("O identificador do Pix na rede.", typed("string", pattern="^[a-zA-Z0-9]{32}$"))
_LOCATION_ID: Final = ("O `id` da location.", typed("integer", minimum=1, maximum=2**53 - 1))
_PATH_PARAMETERS: Final[Mapping[str, tuple[str, Schema]]] = {
    "/cobv/{txid}": ("O identificador da cobrança.", typed("string", pattern="^[a-zA-Z0-9]{26,35}$")),
    "/cob/{txid}": ("O identificador da cobrança.", typed("string", pattern="^[a-zA-Z0-9]{26,35}$")),
    "/loc/{id}": _LOCATION_ID,
    "/pix/{e2eid}": _END_TO_END_ID,
    "/pix/{e2eid}/devolucao/{id}": ("O seu identificador da devolução.", typed("string", pattern="^[a-zA-Z0-9]{1,35}$")),
    "/webhook/{chave}": ("A chave Pix.", typed("string", minLength=1, maxLength=120)),
    "/webhook/{chave}/entregas/{id}": ("O `id` da entrega.", typed("integer", minimum=1, maximum=2**53 - 1)),
}
"""The last parameter of a path with this beginning."""
_TXID: Final = dict(txid="$response.body#/txid")
_LOCATION: Final = dict(id="$response.body#/id")
_REFUND: Final = dict(e2eid="$request.path.e2eid", id="$request.path.id")
_KEY: Final = dict(chave="$request.path.chave")
_LINKS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "cob.criar": {"cob.consultar": _TXID, "cob.revisar": _TXID, "cob.criar_com_txid": _TXID},
    "cob.criar_com_txid": {"cob.consultar": _TXID, "cob.revisar": _TXID},
    "cob.consultar": {"loc.consultar": dict(id="$response.body#/loc/id"), "cob.revisar": _TXID},
    "cobv.criar_com_txid": {"cobv.consultar": _TXID, "cobv.revisar": _TXID},
    "cobv.consultar": {"loc.consultar": dict(id="$response.body#/loc/id"), "cobv.revisar": _TXID},
    "loc.criar": {"loc.consultar": _LOCATION, "loc.desvincular": _LOCATION},
    "devolucao.solicitar": {"devolucao.consultar": _REFUND, "pix.consultar": dict(e2eid="$request.path.e2eid")},
    "webhook.configurar": {"webhook.consultar": _KEY, "webhook.remover": _KEY},
}
"""By the operation whose success they follow, and the one that they lead to: its parameters."""
_WORDS: Final = problem.merge_words(problem.StandardWords(tags=_TAGS, path_parameters=_PATH_PARAMETERS, links=_LINKS))
_WRITES: Final = frozenset({"PUT", "POST", "PATCH", "DELETE"})
_STATUS_TEXTS: Final = {
    "400": "A requisição é inválida.",
    "401": "Falta um token válido.",
    "403": "O token não permite esta operação.",
    "404": "O recurso indicado no caminho não existe.",
    "405": "O caminho não aceita este método.",
    "413": "O corpo é grande demais.",
    "415": "O corpo não é JSON.",
    "429": "Requisições demais.",
    "500": "Erro do serviço.",
    "503": "O serviço não pode atender agora; nada foi feito, a não ser que o detail diga outra coisa.",
    "504": "Não se sabe se a operação foi concluída; repita a mesma requisição.",
}


def describe_door(
    operations: Sequence[StandardOperation], scopes: Mapping[str, str], *, base_url: str, token_url: str
) -> Schema:
    """The document; addresses as callers see them."""
    paths: Schema = {}
    for row in operations:
        paths.setdefault(row.path, {})[row.method.lower()] = _describe_operation(row)
    tags = dict.fromkeys(row.id.partition(".")[0] for row in operations)
    records = {problem.Problema, *(kind for row in operations for kind in (row.body, row.answer))} - {Nothing}
    used = sorted({row.scope for row in operations})
    flow = {"tokenUrl": token_url, "scopes": {scope: scopes[scope] for scope in used}}
    content = {problem.MEDIA_TYPE: {"schema": to_schema(problem.Problema.__name__)}}
    document: Schema = {
        "openapi": "3.0.3",
        "info": dict(title="API Pix", version="2.9.0", description=_DESCRIPTION, license=dict(name="Apache-2.0")),
        "servers": [{"url": base_url + prefix} for prefix in PREFIXES],
        "tags": [{"name": name, "description": _WORDS.tags[name]} for name in tags],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(describe_structs(records).items())),
            "responses": {_name_of(status): described(text, content=content) for status, text in _STATUS_TEXTS.items()},
            "securitySchemes": {"OAuth2": typed("oauth2", flows={"clientCredentials": flow})},
        },
    }
    return convert_part(document)


def _describe_operation(row: StandardOperation) -> Schema:
    first, rest = split_docstring(row.handler.__doc__ or "")
    found: Schema = {"operationId": row.id, "tags": [row.id.partition(".")[0]], "summary": first.removesuffix(".")}
    if rest:
        found["description"] = rest
    found["security"] = [{"OAuth2": [row.scope]}]
    found["parameters"] = [*_describe_path(row.path), *describe_query(row.query)]
    if row.body is not Nothing:
        found["requestBody"] = {"required": True, "content": _json(row.body)}
    success = described("Feito.")
    if row.answer is not Nothing:
        success["content"] = _json(row.answer)
    if links := _WORDS.links.get(row.id):
        # ``cob.consultar`` is the link consultar_cob.
        success["links"] = {
            "_".join(reversed(to.split("."))): {"operationId": to, "parameters": dict(names)} for to, names in links.items()
        }
    statuses = ["400", "401", "403", "404", "405", "429", "500", "503"]
    statuses += ["413", "415"] if row.body is not Nothing else []
    statuses += ["504"] if row.method in _WRITES else []
    refusals = {status: {"$ref": f"#/components/responses/{_name_of(status)}"} for status in sorted(statuses)}
    found["responses"] = {str(row.status): success, **refusals}
    return found


def _describe_path(path: str) -> list[Schema]:
    found: list[Schema] = []
    before = ""
    for segment in path.split("/")[1:]:
        before += f"/{segment}"
        if segment.startswith("{"):
            description, schema = _WORDS.path_parameters[before]
            found.append(parameter("path", segment.strip("{}"), description, schema, required=True))
    return found


def _name_of(status: str) -> str:
    return HTTPStatus(int(status)).name.title().replace("_", "")


def _json(record: type) -> Schema:
    return {"application/json": {"schema": to_schema(record.__name__)}}
