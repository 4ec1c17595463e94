"""Random requests to the simulated Woovi: never 5xx, and always as in its official document."""

import random
from typing import Any, Final

import pytest

from faces.tests.test_face_fuzz import fill_path, is_in_their_form, make_body, make_query
from faces.tests.test_woovi import ACCOUNT, CHARGE, PAYMENT, open_woovi
from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect_faces.api import TABLES
from pixconnect_faces.frame import open_faces
from support.faces import PAYEE, Bank

_ROUNDS: Final = 6
_BODIES: Final[tuple[dict[str, Any], ...]] = (
    CHARGE, {**CHARGE, "customer": {"name": "Ana", "taxID": "12345678909"}, "additionalInfo": [{"key": "a", "value": "b"}]},
    {"expiresDate": "2060-01-01T00:00:00Z"}, {**PAYMENT, "correlationID": "p"}, {"correlationID": "p", "value": 1},
    {"type": "MANUAL", "value": 5, "correlationID": "m", "autoApprove": True, **ACCOUNT},
    {"correlationID": "d", "transactionEndToEndId": "E99999004202611201234a1B2c3D4e5F"}, {"pixKey": PAYEE},
    {"qrCode": format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=1), "correlationID": "q"},
    {"webhook": {"event": "OPENPIX:CHARGE_CREATED", "url": "http://127.0.0.1:9/", "authorization": "x"}},
)  # fmt: skip


@pytest.mark.parametrize("of", [0, 1], ids=["", "homologation"])
async def test_no_request_is_answered_by_5xx_or_against_the_document(bank: Bank, of: int) -> None:
    chance = random.Random(30 + of)  # noqa: S311  the same requests in each run
    opened = open_faces("woovi")[of]
    woovi = open_woovi(bank, opened.name)
    asked = [(row.method, row.path) for row in TABLES["woovi"](opened)] * _ROUNDS
    nowhere = ("/", "/oauth/token", "/v2/cob", "/api/v1/subaccount", "/%ff")
    for method, path in [*asked, *((method, path) for path in nowhere for method in ("GET", "POST", "PATCH"))]:
        target = f"{fill_path(chance, path)}?{make_query(chance)}"
        body = None if method in ("GET", "DELETE") else make_body(chance, _BODIES)
        # The call itself compares the answer with the document.
        answer = await woovi.call(method, target, body)
        assert answer.status < 500, (method, target, body, answer)
        if answer.status >= 400:
            assert is_in_their_form("woovi", answer.body), (method, target, body, answer)
