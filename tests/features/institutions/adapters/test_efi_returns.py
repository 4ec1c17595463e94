"""Efi's list of returned Pix is read strictly: an unreadable item is kept, and does not hide the others."""

from datetime import UTC, datetime

import pytest

from pixconnect.features.institutions.adapters.efi import decode_sent, read_returns
from pixconnect.features.institutions.rules.malformed_item import MalformedItem
from pixconnect.features.institutions.rules.rail_memory import SentReturn

E2E = "E09089356202607011500APIff82f2e5"
RTR = "D99999004202607011600abcdefghijk"
SENT = {
    "endToEndId": E2E,
    "idEnvio": "a" * 32,
    "valor": "20.00",
    "status": "REALIZADO",
    "horario": {"solicitacao": "2026-07-01T15:00:00.000Z", "liquidacao": "2026-07-01T15:00:01.000Z"},
    "favorecido": {"chave": "joana@pix.example"},
}
RETURNED = {"rtrId": RTR, "valor": "7.00", "horario": "2026-07-01T16:00:00.000Z"}
READ = SentReturn(end_to_end_id=E2E, return_id=RTR, amount_cents=700, settled_at=datetime(2026, 7, 1, 16, tzinfo=UTC))


@pytest.mark.parametrize(
    ("row", "good", "malformed"),
    [
        (SENT, [], 0),
        (SENT | {"devolucoes": [RETURNED]}, [READ], 0),
        (SENT | {"devolucoes": [RETURNED | {"valor": "7,00"}, RETURNED]}, [READ], 1),
        (SENT | {"devolucoes": [RETURNED | {"rtrId": None}]}, [], 1),
        (SENT | {"devolucoes": [RETURNED | {"horario": "yesterday"}]}, [], 1),
        (SENT | {"devolucoes": "two"}, [], 1),
        ({"devolucoes": [RETURNED]}, [], 1),
        (None, [], 0),
    ],
)
def test_each_return_is_read_or_kept(row: object, good: list[SentReturn], malformed: int) -> None:
    found = read_returns(row)
    assert [each for each in found if isinstance(each, SentReturn)] == good
    assert sum(isinstance(each, MalformedItem) for each in found) == malformed


def test_a_return_that_cannot_be_read_hides_no_outcome_of_its_pix() -> None:
    sent = decode_sent(SENT | {"devolucoes": [{"rtrId": 1}, RETURNED]})
    assert (sent.status, list(sent.returns)) == ("settled", [READ])
