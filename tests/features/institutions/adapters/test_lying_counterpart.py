"""A counterpart that lies, hangs and floods is not believed, and costs bounded time and memory."""

import asyncio
import json
import re
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.adapters.connection import CallBounds
from pixconnect.features.institutions.adapters.standard_records import decode_charge, decode_refund
from pixconnect.features.institutions.opener import open_institution
from pixconnect.features.institutions.profiles.account_traits import AnswerWords
from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.institution import (
    ChargeTerms,
    Institution,
    InstitutionUnavailable,
    NotSent,
    OpenedCharge,
    ReceivedPix,
    UnknownOutcome,
)
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.base import errors
from support.account_there import make_account, make_papers

TXID = "openedataliar0000000000000001"
TERMS = ChargeTerms(txid=TXID, key="k@x.example", amount_cents=1234, lifetime_s=3600)
E2E = "E12345678202611221200abcdefghijk"
SECRET = "s3cret-of-the-client"
TOKEN = "t0ken-of-the-account"
CHARGE: dict[str, Any] = dict(
    txid=TXID,
    status="ATIVA",
    revisao=0,
    chave="k@x.example",
    valor=dict(original="12.34"),
    calendario=dict(criacao="2026-11-22T12:00:00.000Z", expiracao=3600),
)
PIX: dict[str, Any] = dict(endToEndId=E2E, txid=TXID, valor="12.34", horario="2026-11-22T12:00:00.000Z", chave="k@x")

BOUNDS = CallBounds(exchange_s=1.0, tried_max=1)

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(body: object, status: int = 200, media_type: str = "application/json", **headers: str) -> bytes:
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"content-type": media_type, "content-length": str(len(octets)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
    return "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode() + octets


def page(*items: object, pages: object = 1) -> dict[str, Any]:
    return dict(parametros=dict(paginacao=dict(quantidadeDePaginas=pages)), pix=list(items))


class Liar:
    """Gives every client a token, and otherwise the prepared answers."""

    def __init__(self) -> None:
        self.said: bytes | Behave = answer({})
        self.tokens: list[bytes] = []
        self.token: object = dict(access_token=TOKEN, expires_in=3600, token_type="Bearer")
        self.refused_scopes = b""  # the same answer also when the scopes of charges with a due date are requested
        self.asked: list[str] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(found[1])) if found else b""
                line = head.split(b"\r\n")[0].decode()
                self.asked.append(line)
                if "token" in line:
                    self.tokens.append(head + body)
                    said = self.refused_scopes if b"cobv" in body and self.refused_scopes else self.token
                    writer.write(said if isinstance(said, bytes) else answer(said))
                elif isinstance(self.said, bytes):
                    writer.write(self.said)
                else:
                    await self.said(reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    made = Liar()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    await made.stop()


@pytest.fixture
async def institution(liar: Liar) -> AsyncIterator[Institution]:
    opened = open_there(liar)
    yield opened
    await opened.close()


def open_there(liar: Liar, kind: str = "inter", note: Callable[[str], None] = lambda _: None, **changes: Any) -> Institution:
    papers = make_papers("client")
    credential = Credential(client_id="client", client_secret=SECRET, certificate=papers.client, private_key=papers.client_key)
    account = make_account(kind, **{"base_url": f"http://127.0.0.1:{liar.port}", **changes})
    return open_institution(account, credential, SystemClock(), SystemEntropy(), BOUNDS, note=note)


async def list_all(institution: Institution) -> list[ReceivedPix | MalformedItem]:
    until = datetime.now(UTC)
    pages = institution.list_received(until - timedelta(hours=1), until)
    return [item async for one in pages for item in one]


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """50 MB with an honest length."""
    size = 50 * 1024 * 1024
    writer.write(f"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n".encode())
    for _ in range(size // 65536):
        writer.write(b" " * 65536)
        await writer.drain()


async def chunk_forever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\n \r\n" * 1000)
        await writer.drain()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    raise ConnectionError


async def truncate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(CHARGE)[:-10])
    raise ConnectionError


LIES: dict[str, bytes | Behave] = {
    "50 MB": flood,
    "chunked forever": chunk_forever,
    "drip": drip,
    "silence": say_nothing,
    "hang up": hang_up,
    "truncated": truncate,
    "a page": answer(b"<html>Aguarde</html>", media_type="text/html"),
    "a charge as a page": answer(CHARGE, media_type="text/html"),
    "no type": answer(CHARGE, media_type=""),
    "no body": answer(b""),
    "a list": answer([CHARGE]),
    "too deep": answer(b"[" * 60_000),
    "half a JSON": answer(b'{"txid":'),
    "a redirect": answer(CHARGE, 302, location="https://elsewhere.example/"),
    "5xx with a charge": answer(CHARGE, 500),
    "a fault of SOAP": answer(b"<Envelope/>", 500, "text/xml"),
    "408": answer({}, 408),
    "a number as a text": answer({**CHARGE, "calendario": {**CHARGE["calendario"], "expiracao": "3600"}}),
    "a text as a number": answer({**CHARGE, "valor": {"original": 12.34}}),
    "a number of 5000 digits": answer(json.dumps(CHARGE).replace('"12.34"', "9" * 5000).encode()),
    "negative": answer({**CHARGE, "valor": {"original": "-12.34"}}),
    "three decimals": answer({**CHARGE, "valor": {"original": "12.345"}}),
    "an unknown state": answer({**CHARGE, "status": "PAGA"}),
    "another charge": answer({**CHARGE, "txid": TXID[:-1] + "2"}),
    "another amount": answer({**CHARGE, "valor": {"original": "12.35"}}),
    "another key": answer({**CHARGE, "chave": "other@x.example"}),
    "no instant": answer({**CHARGE, "calendario": {"criacao": "2026-11-22T12:00:00", "expiracao": 3600}}),
    "a code that is none": answer({**CHARGE, "pixCopiaECola": "000201 <script>"}),
    "compressed": answer(CHARGE, content_encoding="gzip"),
    "no protocol": b"220 ready\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 X\r\n" + b"x: y\r\n" * 10_000,
}


@pytest.mark.parametrize("lie", LIES)
async def test_no_lie_about_an_opening_is_believed(liar: Liar, institution: Institution, lie: str) -> None:
    liar.said = LIES[lie]
    tracemalloc.start()
    async with asyncio.timeout(60):
        opened = await institution.open_charge(TERMS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(opened, UnknownOutcome), opened
    assert peak < 8 * 1024 * 1024
    # The adapter sends it once, for every answer.
    assert sum(line.startswith("PUT") for line in liar.asked) == 1


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie not in ("another amount", "another key")])
async def test_no_lie_is_a_charge_nor_the_absence_of_one(liar: Liar, institution: Institution, lie: str) -> None:
    liar.said = LIES[lie]
    async with asyncio.timeout(60):
        with pytest.raises(InstitutionUnavailable):
            await institution.read_charge(TXID)


def test_a_profile_adds_words_of_its_own() -> None:
    words = AnswerWords(charges={"PAGA": "paid"}, refunds={"FEITA": "returned"}, codes=["brcode"])
    code = format_static_br_code("k@x.example", "Loja", "Recife")
    charge = decode_charge({**CHARGE, "status": "PAGA", "brcode": code}, words)
    assert (charge.status, charge.code) == ("paid", code)
    assert decode_refund({"id": "a1", "valor": "1.00", "status": "FEITA"}, words).status == "returned"


async def test_one_bad_item_stops_none_of_the_others(liar: Liar, institution: Institution) -> None:
    bad: list[object] = [
        {**PIX, "endToEndId": E2E + "x"}, {**PIX, "valor": 12.34}, {**PIX, "valor": "-12.34"},
        {**PIX, "valor": "0.00"}, {**PIX, "valor": "99999999999.99"}, {**PIX, "horario": "yesterday"},
        {**PIX, "horario": "2026-11-22T12:00:00"}, {**PIX, "txid": "no txid"}, {**PIX, "txid": 7},
        {**PIX, "chave": "k" * 78}, {**PIX, "devolucoes": {}}, "a text", None,
    ]  # fmt: skip
    good = {**PIX, "endToEndId": E2E[:-1] + "z", "infoPagador": "a\x00b" + "c" * 500, "pagador": {"nome": 7}}
    liar.said = answer(page(*bad, good))
    *kept, pix = await list_all(institution)
    assert all(isinstance(item, MalformedItem) for item in kept)
    assert len(kept) == len(bad)
    assert isinstance(pix, ReceivedPix)
    assert pix.payer_message is not None
    assert (len(pix.payer_message), pix.payer.name) == (140, "-")
    first = kept[1]
    assert isinstance(first, MalformedItem)
    assert (first.end_to_end_id, "valor" in first.reason, "12.34" in first.content) == (E2E, True, True)


@pytest.mark.parametrize(("status", "is_refusal"), [(401, True), (403, True), (500, False), (404, False)])
async def test_who_refuses_the_credential_is_told_from_who_is_away(
    liar: Liar, institution: Institution, status: int, *, is_refusal: bool
) -> None:
    liar.said = answer({}, status=status)
    with pytest.raises(InstitutionUnavailable) as caught:
        await list_all(institution)
    assert caught.value.is_refusal is is_refusal


async def test_many_bad_items_of_one_answer_are_one_and_stop_none_of_the_others(liar: Liar, institution: Institution) -> None:
    liar.said = answer(page(*({"valor": "1.00"} for _ in range(20_000)), PIX))
    pix, told = await list_all(institution)
    assert isinstance(pix, ReceivedPix)
    assert isinstance(told, MalformedItem)
    assert "20000 items of one answer" in told.reason
    liar.said = answer(page({**PIX, "devolucoes": [{}] * 25}))
    pix, told = await list_all(institution)
    assert isinstance(pix, ReceivedPix)
    assert isinstance(told, MalformedItem)


async def test_a_return_that_cannot_be_read_is_told_beside_its_pix(liar: Liar, institution: Institution) -> None:
    refund = dict(id="a1", rtrId="D" + E2E[1:], valor="1.00", status="DEVOLVIDO", horario=dict(liquidacao=PIX["horario"]))
    liar.said = answer(page({**PIX, "devolucoes": [{**refund, "status": "TALVEZ"}, refund, {**refund, "valor": 1}]}))
    pix, *kept = await list_all(institution)
    assert isinstance(pix, ReceivedPix)
    assert [(each.id, each.amount_cents, each.status) for each in pix.refunds] == [("a1", 100, "returned")]
    assert [isinstance(each, MalformedItem) and each.end_to_end_id for each in kept] == [E2E, E2E]


@pytest.mark.parametrize(
    "body",
    [
        {"pix": [PIX]}, page(PIX, pages="2"), page(PIX, pages=-1), page(PIX, pages=10**9), page(PIX, pages=True),
        {**page(), "pix": {}}, {**page(), "pix": None}, [],
    ],
    ids=str,
)  # fmt: skip
async def test_a_list_without_its_length_is_no_list(liar: Liar, institution: Institution, body: object) -> None:
    liar.said = answer(body)
    with pytest.raises(InstitutionUnavailable):
        await list_all(institution)


async def test_each_call_is_counted_by_what_came_of_it(liar: Liar) -> None:
    async def cut_off(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    said: dict[str, bytes | Behave] = {"throttled": answer({}, 429, retry_after="1"), "refused": answer({}, 403)}
    said |= {"failed": answer({}, 503), "answered": answer({}), "lost": cut_off}
    for outcome, answered in said.items():
        noted = list[str]()
        institution = open_there(liar, note=noted.append)
        liar.said = answered
        await institution.open_charge(TERMS)
        await institution.close()
        assert noted == [outcome]
    liar.token, noted = answer({"error": "invalid_client"}, 401), list[str]()
    institution = open_there(liar, note=noted.append)
    await institution.open_charge(TERMS)
    away = open_there(liar, note=noted.append, base_url="http://127.0.0.1:1", token_url="http://127.0.0.1:1")
    # The second call falls into the pause after the first one's token request.
    await away.open_charge(TERMS)
    await away.open_charge(TERMS)
    assert noted == ["no_token", "unreached", "unreached"]
    await institution.close()
    await away.close()


@pytest.mark.parametrize(("status", "outcome"), [(400, "no_token"), (429, "throttled"), (503, "failed")])
async def test_only_a_refused_token_is_counted_as_refused(liar: Liar, status: int, outcome: str) -> None:
    liar.token, noted = answer({}, status), list[str]()
    institution = open_there(liar, note=noted.append)
    await institution.open_charge(TERMS)
    await institution.close()
    assert noted == [outcome]


async def test_what_was_never_sent_is_told_from_what_nobody_knows(liar: Liar, institution: Institution) -> None:
    liar.said = answer({}, 429, retry_after="7")
    refused = await institution.open_charge(TERMS)
    assert isinstance(refused, NotSent)
    assert refused.retry_after is not None
    assert 7 <= refused.retry_after.total_seconds() <= 9
    liar.token = answer({"error": "invalid_client"}, 401)
    other = open_there(liar)
    without = await other.open_charge(TERMS)
    assert isinstance(without, NotSent)
    assert "invalid_client" in without.reason
    asked_count = len(liar.tokens)
    # The next token request waits.
    assert isinstance(await other.open_charge(TERMS), NotSent)
    assert len(liar.tokens) == asked_count
    gone = open_there(liar)
    liar.port = 1
    nowhere = open_there(liar)
    assert isinstance(await nowhere.open_charge(TERMS), NotSent)
    for each in (other, gone, nowhere):
        await each.close()


async def test_only_a_404_of_the_institution_says_that_there_is_none(liar: Liar, institution: Institution) -> None:
    liar.said = answer(b"", 404)
    with pytest.raises(InstitutionUnavailable):
        await institution.read_charge(TXID)
    liar.said = answer({"type": "https://x/CobNaoEncontrado", "status": 404}, 404, "application/problem+json")
    assert await institution.read_charge(TXID) is None


async def test_of_forty_calls_at_once_one_asks_for_the_token(liar: Liar) -> None:
    institution = open_there(liar, "bb")
    liar.said = answer(CHARGE)
    opened = await asyncio.gather(*[institution.read_charge(TXID) for _ in range(40)])
    await institution.close()
    assert all(isinstance(each, OpenedCharge) for each in opened)
    assert len(liar.tokens) == 1


@pytest.mark.parametrize(
    "token",
    [
        dict(access_token="two words"), dict(access_token="line\r\nX-Injected: 1"), dict(access_token=7),
        dict(access_token=""), dict(access_token="x" * 9000), dict(access_token=TOKEN, client_id="another"), {}, [],
    ],
    ids=str,
)  # fmt: skip
async def test_a_token_that_cannot_be_one_is_none(liar: Liar, institution: Institution, token: object) -> None:
    liar.token = token
    assert isinstance(await institution.open_charge(TERMS), NotSent)
    assert not any(line.startswith("PUT") for line in liar.asked)


async def test_nothing_secret_is_in_what_is_raised_answered_or_logged(
    liar: Liar, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    institution = open_there(liar, "efi")
    shown = list[str]()
    echo = {"nome": "valor_invalido", "mensagem": f"Bearer {TOKEN} of {SECRET} at https://here.example/hidden-path"}
    for status in (200, 302, 400, 401, 403, 404, 409, 500):
        liar.said = answer(echo, status)
        shown.append(repr(await institution.open_charge(TERMS)))
        shown.append(repr(await institution.refund(E2E, "a1", 1)))
        for call in (institution.read_charge(TXID), institution.set_webhook("k", "https://here.example/hidden-path")):
            try:
                await call
            except InstitutionUnavailable as error:
                shown += [str(error), repr(error), error.reason]
    shown += [repr(institution), repr(vars(institution))]
    shown += [caplog.text, *capsys.readouterr()]
    await institution.close()
    text = "\n".join(shown)
    assert "valor_invalido" in text
    for secret in (SECRET, TOKEN, "PRIVATE KEY"):
        assert secret not in text
    assert "hidden-path" not in "\n".join(each for each in shown if "403" in each and "Unavailable" in each)


@pytest.mark.parametrize(("name", "code"), [("inter", "0b1d3c5e-8e0a-4c2d-9b4f-6a8c0e2d4f35"), ("sicoob", E2E)])
async def test_the_token_for_sending_is_in_nothing_that_is_answered_or_raised(liar: Liar, name: str, code: str) -> None:
    institution = open_there(liar, name)
    key = structs.replace(UNKNOWN_PARTY, key="joana@pix.example", key_type="EMAIL")
    pix = OutgoingPix(name="a" * 32, code=code, amount_cents=1, payer_key=None, payee=key, is_by_key=True)
    echo = {"title": f"Bearer {TOKEN}", "detail": f"{TOKEN} was sent"}
    shown = list[str]()
    for status in (400, 403, 404, 500):
        liar.said = answer(echo, status)
        shown.append(repr(await institution.send(pix)))
        try:
            shown.append(repr(await institution.read_sent(pix.name, code)))
        except InstitutionUnavailable as error:
            shown += [str(error), repr(error), error.reason]
    await institution.close()
    assert "was sent" in "".join(shown)
    assert TOKEN not in "".join(shown)


async def test_a_style_of_asking_for_tokens_is_the_institutions(liar: Liar) -> None:
    seen = dict[str, bytes]()
    for name in ("efi", "inter", "sicoob", "santander", "bb"):
        institution = open_there(liar, name, options={"app_key": "k1"})
        liar.said = answer(CHARGE)
        await institution.open_charge(TERMS)
        seen[name] = liar.tokens[-1]
        await institution.close()
    assert b"\r\nAuthorization: Basic " in seen["efi"]
    assert seen["efi"].endswith(b'{"grant_type":"client_credentials"}')
    assert b"client_secret=s3cret-of-the-client" in seen["inter"]
    assert b"scope=cob.read%20cob.write" in seen["inter"]
    assert b"Authorization" not in seen["inter"]
    assert b"client_id=client" in seen["sicoob"]
    assert seen["santander"].startswith(b"POST /oauth/token?grant_type=client_credentials ")
    assert seen["santander"].endswith(b"client_id=client&client_secret=s3cret-of-the-client")
    assert b"grant_type=client_credentials&scope=" in seen["bb"]
    assert f"PUT /pix/v2/cob/{TXID}?gw-dev-app-key=k1 HTTP/1.1" in liar.asked


async def test_an_account_that_cannot_be_reached_safely_is_not_opened(liar: Liar) -> None:
    for changes in (dict(base_url="http://bank.example"), dict(environment="production"), dict(authorities="no PEM")):
        with pytest.raises(errors.BadRequest) as refused:
            open_there(liar, **changes)
        assert SECRET not in str(refused.value)
    account = make_account("inter", f"http://127.0.0.1:{liar.port}")
    for credential in (
        Credential(client_id="client", client_secret=SECRET),
        Credential(client_id="client", client_secret=SECRET, certificate="no", private_key="PEM"),
        Credential(client_id="client", client_secret=SECRET, certificate="half"),
    ):
        with pytest.raises(errors.BadRequest) as refused:
            open_institution(account, credential, SystemClock(), SystemEntropy())
        assert SECRET not in str(refused.value)
