"""The payee is read as far as it is given, and a faulty record does not invalidate the rest."""

from typing import Any

import pytest

from pixconnect.features.institutions.adapters.inter import decode_pix_of_code
from pixconnect.features.institutions.adapters.wire import find_listed_payee
from pixconnect.features.institutions.adapters.woovi_sender import decode_cents_sent
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY

CODE = "34c6ee37-8432-5241-84a8-e8b0d45d767b"
NAME = "34c6ee378432224104a8e8b0d45d767b"
E2E = f"E{'1' * 31}"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (dict(nome="Joana", cpfCnpj="***.982.247-**"), ("Joana", "***.982.247-**", "99999999", "0")),
        (dict(cpfCnpj="12.345.678/0001-95", codIspb="54811417", nroConta="981"), ("-", "12345678000195", "54811417", "981")),
        (dict(nome=7, codIspb="077", nroConta=["x"]), None),
        ({}, None),
    ],
)  # fmt: skip
def test_what_is_told_is_kept_and_the_rest_is_unknown(told: dict[str, Any], found: tuple[str, ...] | None) -> None:
    payee = find_listed_payee(told, name="nome", tax_id="cpfCnpj", ispb="codIspb", account_number="nroConta")
    assert (payee and (payee.name, payee.tax_id, payee.ispb, payee.account_number)) == found


def test_inter_tells_it_with_the_pix() -> None:
    told = dict(
        codigoSolicitacao=CODE, status="PAGO", endToEnd=E2E, valor=1.5, dataHoraMovimento="2026-11-22T12:00:00",
        recebedor=dict(nome="Joana Lima", cpfCnpj="***982247**"),
    )  # fmt: skip
    sent = decode_pix_of_code(NAME, CODE, {"transacaoPix": told})
    assert sent.paid is not None
    assert (sent.status, sent.paid.name, sent.paid.tax_id) == ("settled", "Joana Lima", "***982247**")
    assert decode_pix_of_code(NAME, CODE, {"transacaoPix": told | {"recebedor": "?"}}).paid is None


def test_woovi_tells_it_with_where_it_goes() -> None:
    members = dict(
        payment=dict(correlationID=NAME, value=150, status="CONFIRMED", destinationAlias="joana@pix.example"),
        transaction=dict(endToEndId=E2E, time="2026-11-22T12:00:00.000Z", value=150),
        destination=dict(name="Dan", taxID="313.242.270-36", pixKey="joana@pix.example"),
    )
    paid = decode_cents_sent(members, NAME).paid
    assert paid is not None
    assert (paid.name, paid.tax_id, paid.ispb) == ("Dan", "31324227036", UNKNOWN_PARTY.ispb)
