"""Errors with their status and code, in order, and the headers of every answer."""

import json
import re
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pixconnect.assembly.operations import list_operations
from pixconnect.doors.api.decoding import READ_SLOWLY_MAX
from pixconnect.doors.api.document import safe_headers
from pixconnect.features.sandbox.rules import Arrival
from pixconnect.kernel.rules.listing import Page, TransferSearch
from pixconnect.platform.base import errors
from pixconnect.platform.logging import has_written
from support.records import a_charge, a_transfer

CHARGE = "/v1/connect/charge"
KEY = "/v1/connect/transfer/key"
MANUAL = "/v1/connect/transfer/manual"
QR = "/v1/connect/transfer/qrcode"
REFUND = "/v1/connect/refund"
LISTS = [f"{path}/list" for path in (CHARGE, "/v1/connect/transfer", "/v1/connect/ledger", REFUND)]
PARTY = {
    "account_number": "1001", "account_type": "CHECKING", "branch": "0001", "ispb": "99999004", "name": "Maria Silva",
    "tax_id": "52998224725",
}  # fmt: skip
VALID: dict[str, dict[str, Any]] = {
    CHARGE: {"amount": 100, "key": "loja@sandbox.pix.example"},
    KEY: {"amount": 100, "key": "settle@sandbox.pix.example", "key_type": "EMAIL"},
    MANUAL: {"amount": 100, "credit_party": PARTY},
    QR: {"amount": 100, "emv": "00020101021226"},
    REFUND: {"amount": 100, "end_to_end_id": "E99999003202611201234a1B2c3D4e5F"},
}
UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
LIMIT = 64 * 1024


def padded(body: dict[str, Any], size: int) -> bytes:
    raw = json.dumps(body).encode()
    return raw[:-1] + b" " * (size - len(raw)) + b"}"


TOO_LARGE = b"x" * (LIMIT + 1)
ORDER = [
    # Each request has every error from its own line on; the answer reports the first.
    ("PUT", "/v1/connect/nowhere?page=0", None, TOO_LARGE, 404, "NOT_FOUND"),
    ("PUT", CHARGE + "?base64=x", None, TOO_LARGE, 405, "METHOD_NOT_ALLOWED"),
    ("POST", CHARGE + "?base64=x", None, TOO_LARGE, 401, "UNAUTHORIZED"),
    ("POST", CHARGE + "?base64=x", "poor", TOO_LARGE, 403, "FORBIDDEN"),
    ("POST", CHARGE + "?base64=x", "good", TOO_LARGE, 413, "PAYLOAD_TOO_LARGE"),
    ("POST", CHARGE + "?base64=x", "good", b"x", 400, "BAD_REQUEST"),
    ("POST", CHARGE + "?base64=x", "good", json.dumps(VALID[CHARGE]).encode(), 400, "BAD_REQUEST"),
    ("POST", CHARGE, "good", json.dumps(VALID[CHARGE]).encode(), 404, "NOT_FOUND"),  # the stub's own word
]


@pytest.mark.parametrize(("method", "target", "token", "body", "status", "code"), ORDER)
async def test_the_first_refusal_that_applies_is_the_answer(
    api: Any, method: str, target: str, token: str | None, body: bytes, status: int, code: str
) -> None:
    answer = await api.call(
        method, target, body, token=token, content_type="text/plain" if body[:1] == b"x" else "application/json"
    )
    assert (answer.status, answer.code) == (status, code), answer


async def test_nothing_reaches_a_use_case_before_its_shape_is_right(api: Any, use_cases: Any) -> None:
    for _, target, token, body, _, _ in ORDER[:-1]:
        await api.call("POST", target, body, token=token)
    assert use_cases.asked == []


async def test_what_is_no_path_is_not_found_and_never_redirected(api: Any) -> None:
    for target in [
        "/v1",
        CHARGE + "/",
        CHARGE + "/list/",
        "/v1//connect/charge",
        CHARGE + "/external-id/",
        "/v1/connect/charge/txid",
        CHARGE + "/txid/a/b",
        "/v1/connect/../connect/charge",
        "/v1/connect%2Fcharge",
        "/V1/connect/charge",
        "/docs//",
    ]:
        assert (await api.get(target)).status == 404


async def test_a_failure_of_ours_tells_nothing(api: Any, use_cases: Any) -> None:
    use_cases.answers["create_charge"] = Mock(side_effect=RuntimeError("password of the database: secret"))
    answer = await api.post(CHARGE, VALID[CHARGE])
    assert (answer.status, answer.body["error"]) == (500, {"code": "INTERNAL_ERROR", "message": "internal error"})


@pytest.mark.parametrize("failure", [ConnectionRefusedError(), TimeoutError()])
async def test_a_database_that_is_gone_is_503_with_retry_after(api: Any, use_cases: Any, failure: Exception) -> None:
    use_cases.answers["read_charge_by_id"] = Mock(side_effect=failure)
    answer = await api.get(CHARGE + "/1")
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "SERVICE_UNAVAILABLE", "1")


async def test_without_memory_a_read_is_503_and_nobody_knows_what_became_of_a_change(api: Any, use_cases: Any) -> None:
    use_cases.answers["read_charge_by_id"] = use_cases.answers["create_charge"] = Mock(side_effect=MemoryError)
    read, changed = await api.get(CHARGE + "/1"), await api.post(CHARGE, VALID[CHARGE])
    assert (read.status, read.code) == (503, "SERVICE_UNAVAILABLE")
    assert (changed.status, changed.code) == (504, "OUTCOME_UNKNOWN")


async def test_a_revoked_right_is_no_defect_and_is_told_to_operators_alone(api: Any, use_cases: Any) -> None:
    use_cases.answers["read_charge_by_id"] = Mock(
        side_effect=asyncpg.InsufficientPrivilegeError("permission denied for table balance")
    )
    with capture_logs() as logged:
        answer = await api.get(CHARGE + "/1")
    assert (answer.status, answer.code) == (503, "SERVICE_UNAVAILABLE")
    assert answer.body["error"]["message"] == "the database refuses the service a right that it needs; nothing was done"
    (line,) = [line for line in logged if line["log_level"] == "critical"]
    assert (line["event"], line["error"]) == (
        "the database refuses the service a right: run `pixconnect migrate`",
        "permission denied for table balance",
    )


@pytest.mark.parametrize(
    "failure", [ConnectionRefusedError(), asyncpg.QueryCanceledError(), errors.ServiceUnavailable("nothing was done")]
)
async def test_what_fails_once_something_was_written_never_says_that_nothing_was_done(
    api: Any, use_cases: Any, failure: Exception
) -> None:
    def fail(*_: object) -> object:
        has_written.set(True)  # as a batch does once it is committed
        raise failure

    use_cases.answers["create_charge"] = fail
    answer = await api.post(CHARGE, VALID[CHARGE])
    assert (answer.status, answer.code) == (504, "OUTCOME_UNKNOWN")
    assert "it was written" in answer.body["error"]["message"]


NOT_AN_OBJECT = [b"{", b"nonsense", b"[]", b'"text"', b"null", b"1", b"[{}]", b"{} {}", b"\xff\xfe{}", b'{"amount": NaN}',
                 b"[" * 30_000, b'{"a":' * 12_000, b'{"amount": Infinity}', b"\xef\xbb\xbf{}"]  # fmt: skip


@pytest.mark.parametrize("path", VALID)
async def test_a_body_that_is_no_json_object_is_400(api: Any, path: str) -> None:
    for raw in NOT_AN_OBJECT:
        answer = await api.post(path, raw)
        assert (answer.status, answer.code) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("path", VALID)
async def test_no_body_at_all_is_400(api: Any, path: str) -> None:
    assert (await api.call("POST", path)).status == 400
    assert (await api.call("POST", path, headers={"content-type": "application/json"})).status == 400


async def test_an_integer_of_any_length_is_handed_on_still_out_of_range(api: Any, use_cases: Any) -> None:
    for path in [CHARGE, KEY, MANUAL, QR, REFUND]:
        for digits in ["0", "-1", "1000000000000", str(2**63), str(-(2**63) - 1), "9" * 40, "1" * 5000, "-" + "1" * 5000]:
            text = json.dumps(VALID[path] | {"amount": "@"}).replace('"@"', digits)
            assert (await api.post(path, text.encode())).status == 404
            amount_cents = use_cases.asked[-1][1][2].amount_cents
            assert not 1 <= amount_cents <= 999_999_999_999
            assert -(2**63) < amount_cents < 2**63
            assert (amount_cents < 1) == (digits.startswith("-") or digits == "0")


async def test_a_field_that_is_wrong_is_named(api: Any) -> None:
    for path, change, message in [
        (CHARGE, {"externalid": "x"}, "externalid: unknown field"),
        (CHARGE, {"key": "a\0b"}, "key: must not contain NUL or half a surrogate pair"),
        (CHARGE, {"payer": {"name": "a\udc00", "tax_id": "1"}}, "payer.name: must not contain NUL or half a surrogate pair"),
        (CHARGE, {"a\ud800": 1}, "body: must not contain NUL or half a surrogate pair"),
        (KEY, {"key_type": "IBAN"}, "key_type: must be one of CNPJ, CPF, EMAIL, EVP, PHONE"),
        (MANUAL, {"credit_party": PARTY | {"branch": "00001"}}, "credit_party.branch: must have at most 4 characters"),
        (QR, {"emv": 7}, "emv: must be a string"),
        (REFUND, {"reason": "XX"}, "reason: must be one of BE08, FR01, MD06, SL02"),
    ]:  # fmt: skip
        answer = await api.post(path, VALID[path] | change)
        assert (answer.status, answer.message) == (400, message)


async def test_a_field_that_stands_twice_is_refused(api: Any, use_cases: Any) -> None:
    for first in (b'"amount": 1', b'"amount": "x"', rb'"am\u006funt": 1', b'"amount": 2'):
        for filler in (b"", b" " * READ_SLOWLY_MAX):
            answer = await api.post(CHARGE, b'{%b, "key": "k", "amount": 2%b}' % (first, filler))
            assert (answer.status, use_cases.asked) == (400, [])
            assert answer.message == "amount: stands twice in the body" or (filler and b'"x"' in first)


async def test_null_for_an_optional_field_is_the_same_as_leaving_it_out(api: Any, use_cases: Any) -> None:
    await api.post(CHARGE, VALID[CHARGE])
    await api.post(CHARGE, VALID[CHARGE] | {"external_id": None, "payer": None})
    assert use_cases.asked[0][1][2] == use_cases.asked[1][1][2]
    await api.post(REFUND, VALID[REFUND] | {"reason": None})
    assert use_cases.asked[-1][1][2].reason == "MD06"


async def test_a_patch_refuses_null_and_emptiness(api: Any) -> None:
    for body, message in [
        ({}, "body: must have at least one field"),
        ({"url": None}, "url: must be a string"),
        ({"status": "disabled"}, "status: must be one of active, inactive"),
        ({"event_types": []}, "event_types: must have at least 1 items"),
        ({"secret": "short"}, "secret: must have at least 16 characters"),
    ]:
        answer = await api.call("PATCH", "/v1/webhook/endpoints/1", json.dumps(body).encode())
        assert (answer.status, answer.message) == (400, message)


async def test_any_other_text_is_kept(api: Any, use_cases: Any) -> None:
    for text in ["é", "\u202e right to left", "emoji \U0001f600", b"a\\u00e9".decode("unicode_escape")]:
        for ascii_only in (True, False):
            await api.post(CHARGE, json.dumps(VALID[CHARGE] | {"external_id": text}, ensure_ascii=ascii_only).encode())
            assert use_cases.asked[-1][1][2].external_id == text


async def test_another_content_type_or_none_is_400(api: Any) -> None:
    for content_type in [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/xml"]:
        answer = await api.post(CHARGE, VALID[CHARGE], content_type=content_type)
        assert (answer.status, answer.message) == (400, "Content-Type: must be application/json")


async def test_a_json_content_type_may_have_parameters_and_any_case(api: Any) -> None:
    for content_type in ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]:
        assert (await api.post(CHARGE, VALID[CHARGE], content_type=content_type)).status == 404


async def test_a_content_encoding_other_than_identity_is_400(api: Any) -> None:
    for encoding, status in [("gzip", 400), ("identity", 404), ("identity, gzip", 400), ("", 404)]:
        assert (await api.post(CHARGE, VALID[CHARGE], headers={"Content-Encoding": encoding})).status == status


async def test_a_body_has_at_most_64_kib(api: Any) -> None:
    for size, status in [(LIMIT, 404), (LIMIT + 1, 413)]:
        for is_chunked in [False, True]:
            raw = padded(VALID[CHARGE], size)
            assert (await api.post(CHARGE, [raw[:40_000], raw[40_000:]] if is_chunked else raw)).status == status


async def test_an_id_that_nothing_can_have_is_404(api: Any, use_cases: Any) -> None:
    for number in ["0", "-1", str(2**53), str(2**63), "9" * 400]:
        assert (await api.get(f"{CHARGE}/{number}")).status == 404
        assert use_cases.asked == []


async def test_an_external_id_in_a_path_is_percent_decoded_once(api: Any, use_cases: Any) -> None:
    for segment, wanted in [
        ("a%2Fb", "a/b"),
        ("%2F", "/"),
        ("a%252Fb", "a%2Fb"),
        ("%C3%A9", "é"),
        ("a+b", "a+b"),
        ("x" * 255, "x" * 255),
        ("..", ".."),
        ("a%20b", "a b"),
    ]:
        assert (await api.get(f"{CHARGE}/external-id/{segment}")).status == 404
        assert use_cases.asked[-1][1][2] == wanted


async def test_an_external_id_in_a_path_that_cannot_be_is_400(api: Any) -> None:
    for segment in ["%00", "%ff", "a%C3", "x" * 256]:
        answer = await api.get(f"{CHARGE}/external-id/{segment}")
        assert answer.status == 400
        assert answer.message.startswith("externalId: ")


async def test_what_is_fixed_in_a_path_is_matched_as_it_was_sent(api: Any) -> None:
    for path in ["/v1/%63onnect/health", "/v1/connect/%63harge/1", "/%73andbox/v1/clock"]:
        assert (await api.get(path, token=None)).status == 404


@pytest.mark.parametrize("path", LISTS)
async def test_a_bad_value_in_a_query_is_400_and_named(api: Any, path: str) -> None:
    for name, value in [
        ("page", "0"), ("page", "x"), ("page", ""), ("page", str(2**53 + 1)), ("page", "9" * 400),
        ("page_size", "1001"), ("page_size", "%31%00"), ("initial_date", "2026-01-01T00:00:00"), ("final_date", "%ff"),
    ]:  # fmt: skip
        answer = await api.get(f"{path}?{name}={value}")
        assert (answer.status, answer.message.partition(":")[0]) == (400, name), answer


async def test_unknown_and_repeated_parameters_are_400(api: Any) -> None:
    for query in ["pages=1", "page=1&page=1", "page=1&Page=2", "status=PENDING&x", "base64=true", "%70age=1&page=2"]:
        assert (await api.get(f"{CHARGE}/list?{query}")).status == 400


async def test_a_boolean_is_true_or_false(api: Any) -> None:
    for value in ["banana", "True", "1", "", "TRUE", "yes"]:
        answer = await api.get(f"{CHARGE}/1?base64={value}")
        assert (answer.status, answer.message) == (400, "base64: must be true or false")


async def test_a_public_path_ignores_its_query(api: Any) -> None:
    assert (await api.get("/openapi.json?a=1&a=2&%ff", token=None)).status == 200


async def test_a_created_charge_is_shown_in_the_contracts_words(api: Any, use_cases: Any) -> None:
    shown = {"id": 5, "amount_cents": 1234, "key": "loja@sandbox.pix.example", "txid": "a" * 32}
    use_cases.answers["create_charge"] = lambda *_: a_charge(**shown)
    answer = await api.post(CHARGE, VALID[CHARGE])
    assert answer.status == 200
    assert list(answer.body) == ["success", "data", "meta"]
    assert answer.body["data"] == {
        "id": 5, "amount": 1234, "key": "loja@sandbox.pix.example", "external_id": "order-1", "status": "PENDING",
        "emvqrcps": "000201", "base64image": "", "transaction_identification": "a" * 32,
    }  # fmt: skip


async def test_by_what_a_charge_was_paid(api: Any, use_cases: Any) -> None:
    paying = a_transfer(id=9, direction="IN", status="CONFIRMED", settled_at=datetime(2026, 7, 1, 15, tzinfo=UTC))
    use_cases.answers["read_paying_transfer"] = lambda *_: paying
    answer = await api.get(CHARGE + "/id/5/payment")
    assert (answer.status, use_cases.asked[-1][1][2]) == (200, 5)
    shown = answer.body["data"]
    payer = shown.pop("payer")
    assert shown == {
        "charge_id": 5,
        "transfer_id": 9,
        "end_to_end_id": "E99999003202607011500abcdefghijk",
        "amount": 1000,
        "status": "CONFIRMED",
        "paid_at": "2026-07-01T15:00:00.000000Z",
    }
    assert (payer["name"], payer["tax_id"], payer["ispb"]) == ("Joana", "12345678909", "99999004")
    assert (await api.get(CHARGE + "/id/x/payment")).status == 400
    assert (await api.get(CHARGE + "/id/5/payments")).status == 404


async def test_a_search_asks_for_what_was_given_with_the_key_as_it_is_kept(api: Any, use_cases: Any) -> None:
    use_cases.answers["search_transfers"] = lambda *_: Page(items=[], total_count=0)
    search = "/v1/connect/transfer/search"
    assert (await api.get(search)).status == 200
    assert use_cases.asked[-1][1][2] == TransferSearch()
    query = "status=ERROR&direction=IN&external_id=o%2F1&end_to_end_id=E1&key=529.982.247-25&txid=t"
    assert (await api.get(f"{search}?{query}")).status == 200
    assert use_cases.asked[-1][1][2] == TransferSearch(
        status="ERROR", direction="IN", external_id="o/1", end_to_end_id="E1", key="52998224725", txid="t"
    )
    for bad in ("status=FAILED", "direction=in", "external_id=", f"txid={'t' * 36}", "name=x"):
        assert (await api.get(f"{search}?{bad}")).status == 400, bad


async def test_a_payment_that_was_refused_says_why_in_a_sentence_too(api: Any, use_cases: Any) -> None:
    asked = {"key": "loja@sandbox.pix.example", "amount": 5}
    for code, why in (("AC06", {"code": "AC06", "reason": "The receiver's account is blocked."}), (None, {})):
        status = "CONFIRMED" if code is None else "ERROR"
        use_cases.answers["pay_by_key"] = lambda *_, code=code, status=status: Arrival(
            id="E1", amount_cents=5, status=status, code=code
        )
        answer = await api.post("/sandbox/v1/payments", asked)
        assert answer.body["data"] == {"end_to_end_id": "E1", "amount": 5, "status": status, **why}


async def test_base64_draws_the_code(api: Any, use_cases: Any) -> None:
    use_cases.answers["read_charge_by_id"] = lambda *_: a_charge()
    assert (await api.get(CHARGE + "/5?base64=true")).body["data"]["base64image"] == "cGljdHVyZSBvZiAwMDAyMDE="
    assert (await api.get(CHARGE + "/5?base64=false")).body["data"]["base64image"] == ""


async def test_a_list_has_its_pagination_last(api: Any, use_cases: Any) -> None:
    use_cases.answers["list_charges"] = lambda *_: Page(items=[a_charge()], total_count=11)
    answer = await api.get(CHARGE + "/list?page=2&initial_date=2026-01-01t00:00:00.1234567+03:00")
    assert list(answer.body) == ["success", "data", "meta", "pagination"]
    assert answer.body["pagination"] == {
        "page": 2, "page_size": 10, "total_items": 11, "total_pages": 2, "has_next": False, "has_prev": True,
    }  # fmt: skip
    _, (_, caller, status, span) = use_cases.asked[-1]
    assert (caller.holder_id, status) == (7, "PENDING")
    assert span.initial_at == datetime(2025, 12, 31, 21, 0, 0, 123456, UTC)


async def test_meta_has_the_request_id_the_time_and_the_version(api: Any) -> None:
    meta = (await api.get(CHARGE + "/1")).body["meta"]
    assert list(meta) == ["request_id", "timestamp", "version"]
    assert UUID7.fullmatch(meta["request_id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", meta["timestamp"])
    assert meta["version"] == "1.0"


@pytest.mark.parametrize("given_id", ["a", "order-42_x.Y", "A" * 64])
async def test_a_good_request_id_comes_back(api: Any, given_id: str) -> None:
    answer = await api.get("/nowhere", headers={"X-Request-Id": given_id}, token=None)
    assert answer.body["meta"]["request_id"] == answer.headers["x-request-id"] == given_id


@pytest.mark.parametrize("given_id", ["", "A" * 65, "a b", "a/b", "{x}", '"quoted"', "a\nb", "é"])
async def test_another_request_id_is_replaced(api: Any, given_id: str) -> None:
    answer = await api.get("/nowhere", headers={"X-Request-Id": given_id}, token=None)
    assert UUID7.fullmatch(answer.headers["x-request-id"])


async def test_two_authorization_headers_are_none(api: Any) -> None:
    twice = [("Authorization", "Bearer good"), ("Authorization", "Bearer good")]
    assert (await api.get(CHARGE + "/1", headers=twice, token=None)).status == 401


async def test_money_and_tokens_are_not_for_caches(api: Any) -> None:
    for target in (CHARGE + "/1", "/v1/connect/ledger/balance", "/.well-known/jwks.json", "/nowhere"):
        assert (await api.get(target)).headers["cache-control"] == "no-store"


FORM = "application/x-www-form-urlencoded"
LOGIN = "/v1/iam/users/login"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (b"client_id=a&client_secret=b", "grant_type: is required"),
        (b"client_id=a&client_secret=b&grant_type=password", "grant_type: must be one of client_credentials"),
        (b"client_id=&client_secret=b&grant_type=client_credentials", "client_id: is required"),
        (b"client_id=a&grant_type=client_credentials", "client_secret: is required"),
        (b"client_id=a&client_id=a&client_secret=b&grant_type=client_credentials", "client_id: stands twice in the body"),
        (b"client_id=%ff&client_secret=b&grant_type=client_credentials", "client_id: must be percent-encoded UTF-8"),
        (b"client_id=%00&client_secret=b&grant_type=client_credentials", "client_id: must not contain NUL"),
    ],
)
async def test_a_bad_token_request_is_400(api: Any, form: bytes, message: str) -> None:
    answer = await api.call("POST", LOGIN, form, token=None, content_type=FORM)
    assert (answer.status, answer.message) == (400, message)


async def test_a_token_request_in_json_is_400(api: Any) -> None:
    assert (await api.post(LOGIN, {"client_id": "a"}, token=None)).status == 400


async def test_a_limited_token_request_says_when_to_come_back(api: Any, use_cases: Any) -> None:
    def refuse(*_: object) -> object:
        raise errors.RateLimited("this address has failed too many token requests", 42)

    use_cases.answers["login"] = refuse
    form = b"client_id=a&client_secret=b+c%2B&grant_type=client_credentials&scope=ignored"
    answer = await api.call("POST", LOGIN, form, token=None, content_type=FORM)
    assert (answer.status, answer.headers["retry-after"]) == (429, "42")
    wanted = use_cases.asked[-1][1][0]
    assert (wanted.client_secret, wanted.address) == ("b c+", "127.0.0.1")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(
    st.sampled_from(["amount", "key", "key_type", "external_id", "payer", "credit_party", "emv", "rules", "event_types", "x"]),
    anything,
)
targets = st.sampled_from([row.path for row in list_operations(is_sandbox=True)])


@settings(max_examples=150)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    target=targets,
    segment=st.text(st.characters(codec="ascii", exclude_characters="?#/")) | st.from_regex("(%[0-9A-F]{2})+", fullmatch=True),
    query=st.binary(max_size=80),
    body=st.binary(max_size=200) | fields.map(lambda found: json.dumps(found).encode()),
)
async def test_nothing_that_is_sent_is_ever_our_defect(
    api: Any, method: str, target: str, segment: str, query: bytes, body: bytes
) -> None:
    path = re.sub(r"\{\w+\}", lambda _: segment, target).encode("ascii")
    if target in {"/v1/iam/public-key", "/.well-known/jwks.json", "/v1/qr/jwks.json", "/v1/connect/health", "/readyz"}:
        return  # these have no input, and nothing is behind them here
    answer = await api.call(method, path + b"?" + query.replace(b"#", b""), body)
    assert answer.status in {200, 400, 404, 405, 503}, (method, path, query, body, answer)


@pytest.mark.parametrize("path", ["/v1/connect/charge/1", "/nowhere", "/openapi.json"])
async def test_what_is_for_programs_may_do_nothing_in_a_browser(api: Any, path: str) -> None:
    policy = (await api.get(path)).headers["content-security-policy"]
    assert policy == "default-src 'none'; frame-ancestors 'none'"


def test_a_browser_is_told_to_stay_with_https_only_behind_https() -> None:
    always = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
    assert dict(safe_headers("http://127.0.0.1:8080")) == always
    assert dict(safe_headers("https://pix.example")) == always | {"strict-transport-security": "max-age=31536000"}
