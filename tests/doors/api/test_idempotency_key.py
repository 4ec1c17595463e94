"""``Idempotency-Key``: its form, and that it stands for the ``external_id`` of every request with one."""

from typing import Any

import pytest

from pixconnect.kernel.rules.identifiers import fingerprint
from support.api import Api, UseCases

BODIES: dict[str, dict[str, Any]] = {
    "/v1/connect/charge": {"amount": 100, "key": "loja@sandbox.pix.example"},
    "/v1/connect/transfer/key": {"amount": 100, "key": "settle@sandbox.pix.example", "key_type": "EMAIL"},
    "/v1/connect/transfer/manual": {
        "amount": 100,
        "credit_party": {
            "account_number": "1001", "account_type": "CHECKING", "branch": "0001", "ispb": "99999004",
            "name": "Maria Silva", "tax_id": "52998224725",
        },
    },
    "/v1/connect/transfer/qrcode": {"amount": 100, "emv": "00020101021226"},
    "/v1/connect/refund": {"amount": 100, "end_to_end_id": "E99999003202611201234a1B2c3D4e5F"},
}  # fmt: skip
CHARGE = "/v1/connect/charge"
FORM = (
    "Idempotency-Key: must be one key of printable ASCII characters; "
    'one with blanks, commas or quotes stands between quotes, like "order 7"'
)
LENGTH = "Idempotency-Key: must have 1 to 255 characters"
EQUAL = "Idempotency-Key: must be equal to external_id; or leave one of the two out"


@pytest.mark.parametrize("path", BODIES)
async def test_it_is_the_external_id_and_the_same_request_either_way(api: Api, use_cases: UseCases, path: str) -> None:
    body = BODIES[path]
    await api.post(path, body | {"external_id": "order-7"})
    await api.post(path, body, headers={"Idempotency-Key": "order-7"})
    await api.post(path, body | {"external_id": None}, headers={"Idempotency-Key": '"order-7"'})
    await api.post(path, body | {"external_id": "order-7"}, headers={"Idempotency-Key": "order-7"})
    requests: list[Any] = [arguments[2] for _, arguments in use_cases.asked]
    assert len(requests) == 4
    assert all(request == requests[0] for request in requests)
    assert {fingerprint(request) for request in requests} == {fingerprint(requests[0])}


@pytest.mark.parametrize("path", BODIES)
async def test_two_names_that_differ_are_refused_and_reach_nobody(api: Api, use_cases: UseCases, path: str) -> None:
    answer = await api.post(path, BODIES[path] | {"external_id": "order-8"}, headers={"Idempotency-Key": "order-7"})
    assert (answer.status, answer.code, answer.message) == (400, "BAD_REQUEST", EQUAL)
    assert use_cases.asked == []


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("a", "a"),
        ("x" * 255, "x" * 255),
        (f'"{"x" * 255}"', "x" * 255),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("a/b\\c;d=e:f'g", "a/b\\c;d=e:f'g"),
        ('"order 7, again"', "order 7, again"),
        (r'"a\"b\\c"', r'a"b\c'),
    ],
)
async def test_what_it_may_hold(api: Api, use_cases: UseCases, value: str, key: str) -> None:
    await api.post(CHARGE, BODIES[CHARGE], headers={"Idempotency-Key": value})
    ((_, arguments),) = use_cases.asked
    request: Any = arguments[2]
    assert request.external_id == key


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", LENGTH), ('""', LENGTH), ("x" * 256, LENGTH), (f'"{"x" * 256}"', LENGTH), ("order 7", FORM),
        ("a,b", FORM), ('"a', FORM), ('a"', FORM), ('"a" "b"', FORM), ('"a";b=1', FORM), (r'"a\b"', FORM),
        ('"a\\"', FORM), ("\xe9", FORM), ('"\xe9"', FORM), ("a\tb", FORM),
    ],
)  # fmt: skip
async def test_what_it_may_not_hold_is_400_and_says_so(api: Api, use_cases: UseCases, value: str, message: str) -> None:
    answer = await api.post(CHARGE, BODIES[CHARGE], headers={"Idempotency-Key": value})
    assert (answer.status, answer.code, answer.message) == (400, "BAD_REQUEST", message)
    assert use_cases.asked == []


async def test_two_of_them_are_none(api: Api) -> None:
    for first, second in (("a", "a"), ('"a"', '"b"')):
        headers = [("Idempotency-Key", first), ("Idempotency-Key", second)]
        answer = await api.post(CHARGE, BODIES[CHARGE], headers=headers)
        assert (answer.status, answer.message) == (400, FORM)


async def test_what_has_no_external_id_ignores_it(api: Api, use_cases: UseCases) -> None:
    body = {"url": "https://example.com", "secret": "x" * 16, "event_types": ["qrcode.approved"]}
    await api.post("/v1/webhook/endpoints", body, headers={"Idempotency-Key": ""})
    assert [name for name, _ in use_cases.asked] == ["create_endpoint"]
