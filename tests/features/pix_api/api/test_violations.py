"""Members and parameters, one by one: valid values, and the violation of each invalid one."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from pixconnect.doors.api.decoding import read_object
from pixconnect.features.pix_api.api.violations import Members, Parameters, Violations, show_value
from pixconnect.platform.base.errors import InvariantBroken, Violated


class Item(Struct):
    nome: Annotated[str, Meta(max_length=5)] | None = None


class Cob(Struct):
    valor: str
    expiracao: Annotated[int, Meta(ge=1)] | None = None
    nome: Annotated[str, Meta(min_length=1, max_length=5, examples=["Ana"])] | None = None
    txid: str | None = None
    natureza: Literal["A", "B"] | None = None
    cpf: str | None = None
    cnpj: str | None = None
    loc: Item | None = None
    lista: Annotated[Sequence[Item], Meta(max_length=2)] | None = None
    chave: Annotated[str, Meta(max_length=77)] | None = None


READERS: dict[str, Any] = {
    "valor": lambda body: body.amount("valor"),
    "expiracao": lambda body: body.integer("expiracao"),
    "nome": lambda body: body.text("nome"),
    "txid": lambda body: body.text("txid", length_max=99, pattern=re.compile("[a-z]{3}")),
    "natureza": lambda body: body.choice("natureza", also=("D",)),
    "cpf": lambda body: body.tax_id("cpf"),
    "cnpj": lambda body: body.tax_id("cnpj"),
    "loc": lambda body: body.object("loc"),
    "lista": lambda body: body.objects("lista"),
    "chave": lambda body: getattr(body.pix_key("chave"), "key", None),
}


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"valor":"123.45"}', 12345),
        (b'{"valor":"0.00"}', 0),
        (b'{"valor":"9999999999.99"}', 999_999_999_999),
        (b'{"expiracao":3600}', 3600),
        (b'{"expiracao":"3600"}', 3600),
        (b'{"expiracao":null}', None),
        (b'{"nome":"\xc3\xa3\xc3\xa3\xc3\xa3\xc3\xa3\xc3\xa3"}', "ããããã"),
        (b'{"txid":"abc"}', "abc"),
        (b'{"natureza":"B"}', "B"),
        (b'{"chave":"Loja@Demo.Example"}', "loja@demo.example"),
        (b'{"chave":"+5511987654321"}', "+5511987654321"),
        (b'{"chave":null}', None),
        (b'{"natureza":"D"}', "D"),
        (b'{"cpf":"52998224725"}', "52998224725"),
        (b'{"cnpj":"11444777000161"}', "11444777000161"),
    ],
)
def test_what_is_right_is_read(raw: bytes, found: object) -> None:
    violations = Violations("cob")
    members = read_object(raw)
    assert members is not None
    assert READERS[next(iter(members))](Members(violations, Cob, members)) == found
    violations.raise_if_any()


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        ("{}", "valor", None),
        ('{"valor":null}', "valor", None),
        *((f'{{"valor":{text}}}', "valor", text.strip('"'))
          for text in ('"1.5"', '"1"', '"-1.00"', '"1,00"', '" 1.00"', '"01234567890.00"', '"\uff11.00"', "10.5", "[]")),
        ('{"valor":1e400}', "valor", "Infinity"),
        *((f'{{"expiracao":{text}}}', "expiracao", text.strip('"'))
          for text in ("0", "-1", "2147483648", '"3600.0"', "1.0", "true", '"x"', '""', "12345678901234567890123")),
        ('{"nome":""}', "nome", ""),
        ('{"nome":"abcdef"}', "nome", "abcdef"),
        ('{"nome":"\\u0000"}', "nome", "\0"),
        ('{"nome":"\\ud800"}', "nome", "?"),
        ('{"nome":{"a":[1,"ã"]}}', "nome", '{"a":[1,"ã"]}'),
        ('{"txid":"abcd"}', "txid", "abcd"),
        ('{"txid":"abc\\n"}', "txid", "abc\n"),
        ('{"natureza":"C"}', "natureza", "C"),
        ('{"natureza":["A"]}', "natureza", '["A"]'),
        ('{"cpf":"529.982.247-25"}', "cpf", "529.982.247-25"),
        ('{"cpf":"52998224724"}', "cpf", "52998224724"),
        ('{"cnpj":11444777000161}', "cnpj", "11444777000161"),
        ('{"chave":"nobody"}', "chave", "nobody"),
        ('{"chave":"11987654321"}', "chave", "11987654321"),
        ('{"chave":7}', "chave", "7"),
        ('{"loc":[]}', "loc", "[]"),
        ('{"lista":{}}', "lista", "{}"),
        ('{"lista":[{},{},{}]}', "lista", "[{},{},{}]"),
        ('{"lista":[{},5]}', "lista[1]", "5"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_row_with_what_was_sent(raw: str, name: str, value: str | None) -> None:
    violations = Violations("cob")
    members = read_object(raw.encode())
    assert members is not None
    READERS[name.partition("[")[0]](Members(violations, Cob, members))
    (row,) = violations.rows
    assert (row.property, row.value) == (f"cob.{name}", value)
    assert row.reason
    with pytest.raises(Violated):
        violations.raise_if_any()


def test_rows_come_in_the_order_of_reading_with_their_path() -> None:
    violations = Violations("cob")
    body = Members(violations, Cob, {"valor": 1, "lista": [{"nome": 5}], "loc": None}, refuses_null=True)
    for item in body.objects("lista") or ():
        item.text("nome")
    body.amount("valor")
    body.object("loc")
    assert [(row.property, row.value) for row in violations.rows] == [
        ("cob.lista[0].nome", "5"),
        ("cob.valor", "1"),
        ("cob.loc", "null"),
    ]
    assert [body.has(name) for name in ("valor", "loc", "nada")] == [True, True, False]


def test_what_no_record_describes_so_is_not_read() -> None:
    body = Members(Violations("cob"), Cob, {"valor": "1.00"})
    with pytest.raises(KeyError):
        body.text("nada")
    with pytest.raises(InvariantBroken):
        body.integer("valor")


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("inicio", ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789-03:00", "2026-01-01T00:00:00+00:00"),
         ("2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "", "x")),
        ("pagina", ("0", "5"), ("-1", "1.0", "", "x", "2147483648", "9" * 40)),
        ("presente", ("true", "false"), ("True", "1", "")),
        ("status", ("A",), ("B", "")),
        ("cpf", ("52998224725",), ("52998224724", "529.982.247-25", "")),
        ("cnpj", ("11444777000161",), ("11444777000160", "")),
        ("txid", ("abc",), ("ab", "abc ")),
    ],
)  # fmt: skip
def test_parameters(name: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    readers: dict[str, Any] = {
        "inicio": lambda query: query.instant("inicio"),
        "pagina": lambda query: query.integer("pagina", least=0),
        "presente": lambda query: query.boolean("presente"),
        "status": lambda query: query.choice("status", ("A",)),
        "cpf": lambda query: query.tax_id("cpf"),
        "cnpj": lambda query: query.tax_id("cnpj"),
        "txid": lambda query: query.text("txid", re.compile("[a-z]{3}")),
    }
    for text in right:
        violations = Violations("cob")
        assert readers[name](Parameters(violations, {name: text})) is not None
        violations.raise_if_any()
    for text in wrong:
        violations = Violations("cob")
        assert readers[name](Parameters(violations, {name: text})) is None
        assert [(row.property, row.value) for row in violations.rows] == [(name, text)]
    assert readers[name](Parameters(Violations("cob"), {})) is None


def test_a_long_value_is_cut() -> None:
    assert len(show_value("x" * 500)) == 200
    assert show_value({"a": None}) == '{"a":null}'


class CobQuery(Struct):
    inicio: str
    revisao: Annotated[int, Meta(ge=3, le=7)] | None = None
    txid: Annotated[str, Meta(pattern="^[a-z]{3}$")] | None = None


def test_a_query_is_read_under_the_limits_of_its_record_and_under_another_only_without_one() -> None:
    def read(sent: dict[str, str], record: type[Struct] | None) -> list[str]:
        violations = Violations("cob")
        parameters = Parameters(violations, sent, record).or_under(Open)
        parameters.instant("inicio")
        parameters.integer("revisao")
        parameters.text("txid")
        return [row.property for row in violations.rows]

    class Open(Struct):
        inicio: str | None = None
        revisao: int | None = None
        txid: Annotated[str, Meta(pattern=".*")] | None = None

    assert read({"revisao": "8", "txid": "abc\n"}, CobQuery) == ["inicio", "revisao", "txid"]
    assert read({"inicio": "2026-01-31T12:00:00Z", "revisao": "7", "txid": "abc"}, CobQuery) == []
    assert read({"revisao": "8", "txid": "abcd"}, None) == []
    with pytest.raises(InvariantBroken, match="described"):
        Parameters(Violations("cob"), {"txid": "1"}, CobQuery).integer("txid")
