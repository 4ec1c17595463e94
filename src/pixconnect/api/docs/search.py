"""What the search of the documentation looks through: operations, types, events, errors, and each chapter of each page.

It is one script, which browsers fetch when somebody searches first: it only assigns what there is to a name. Words of Brazilian
Pix lead to what they are called here, because most readers know them by those.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from pixconnect.api.docs import guides, openapi
from pixconnect.api.docs.errors import codes_of, list_errors
from pixconnect.api.docs.fields import Fields
from pixconnect.api.docs.guides import GuidePage, slug
from pixconnect.api.docs.records import Schema
from pixconnect.api.frame.operation import AnyOperation, Section

ALSO: Final = dict(
    assinatura="signature",
    aviso="webhook event",
    chave="key",
    cobranca="charge cob",
    comprovante="receipt",
    conta="account",
    copia="emvqrcps qrcode",
    credenciais="client token",
    devolucao="refund return",
    devolver="refund return",
    enviar="transfer initiate",
    erro="error",
    estorno="refund return",
    evento="event",
    extrato="statement transactions",
    instituicao="institution",
    limite="limit",
    pagador="payer",
    pagamento="payment pay",
    pagar="pay payment transfer",
    recebedor="payee",
    receber="receive charge",
    recebido="received payment",
    reembolso="refund return",
    relogio="clock",
    saldo="balance",
    segredo="secret",
    senha="password secret",
    tarifa="fee movement",
    titular="holder",
    transferencia="transfer",
    vencimento="due",
)
"""Words in Portuguese, folded, and what is meant here."""
# Shorter words stand on nearly every page, and would only make what browsers fetch longer.
_WORD: Final = re.compile(r"[a-z0-9_]{3,}")
_BY_TITLE: Final = ("docs/decisions/", "docs/about/")
"""Pages of which nobody searches the text: they are for who works on the service itself."""


class SearchedText(Struct, frozen=True, array_like=True):
    href: str
    """From the service's address."""
    title: str
    where: str
    """Its route, its page, or what it means."""
    words: str
    """Of its text, each once."""
    is_write: bool = False
    """Whether it is an operation that changes something: who searches for a word mostly wants to do it."""


def write_search(document: dict[str, Any], sections: Sequence[Section]) -> bytes:
    """The script; the document must be the OpenAPI document of the same sections."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    types = [name for name in schemas if Fields(schemas).is_shown(name)]
    found = [
        *(_find_operation(row, document) for section in sections for row in section.operations),
        *(
            SearchedText(f"docs#event-{name}", name, "Event", _gather(item["post"]["description"]))
            for name, item in document["webhooks"].items()
        ),
        *(
            SearchedText(f"docs#error-{code}", code, f"{status}: {meaning}", f"{status}")
            for status, code, meaning in list_errors()
        ),
        *(
            SearchedText(f"docs#type-{name}", name, "Type", _gather_fields(document["components"]["schemas"][name]))
            for name in types
        ),
        *(chapter for page in guides.find_pages().values() for chapter in _list_chapters(page)),
    ]
    return b"const SEARCHED = " + msgspec.json.encode({"found": found, "also": ALSO}) + b";\n"


def fold(text: str) -> str:
    """Without accents and capitals, as the script folds what is typed."""
    return "".join(each for each in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(each))


def _find_operation(row: AnyOperation, document: dict[str, Any]) -> SearchedText:
    summary, description = openapi.summarize(row)
    described = document["paths"][row.path][row.method.lower()]
    schemas = document["components"]["schemas"]
    records = [schemas[record.__name__] for record in (row.body, row.record) if record.__name__ in schemas]
    words = _gather(
        row.id.replace("_", " "),
        row.id,
        description,
        *(code for _, code, _ in codes_of(row, described["responses"])),
        *(_gather_fields(record) for record in records),
    )
    return SearchedText(f"docs#{row.id}", summary.rstrip("."), f"{row.method} {row.path}", words, row.method != "GET")


def _gather_fields(schema: dict[str, Any]) -> str:
    forms = [schema, *schema.get("oneOf", ())]
    return _gather(schema.get("description", ""), *(name for form in forms for name in form.get("properties", ())))


def _list_chapters(page: GuidePage) -> Iterator[SearchedText]:
    if page.address.startswith(_BY_TITLE):
        yield SearchedText(page.address, page.title, "Page", "")
        return
    heading, kept, in_code = "", list[str](), False
    # A heading more at the end closes the last chapter like any other.
    for line in (*page.text.splitlines(), "## "):
        # Within a block of code such a line is a comment of a shell, and no heading.
        in_code ^= line.startswith("```")
        if in_code or not line.startswith(("## ", "### ")):
            kept.append(line)
            continue
        words = _gather(*kept)
        if words:
            anchor = f"#{slug(heading)}" if heading else ""
            yield SearchedText(
                f"{page.address}{anchor}",
                heading.replace("`", "") or page.title,
                page.title if heading else "Page",
                words,
            )
        heading, kept = line.lstrip("# "), []


def _gather(*texts: str) -> str:
    # A dictionary and no set: the same pages make the same script in each process.
    return " ".join(dict.fromkeys(word for text in texts for word in _WORD.findall(fold(text))))
