"""A repeated report equals the kept one, even if another version of the program has kept it."""

import hashlib
import json
from datetime import UTC, datetime

import msgspec
from msgspec import structs

from pixconnect.kernel.rules.charge_contents import DayAmount
from pixconnect.kernel.rules.kept_report import fingerprint
from pixconnect.kernel.rules.rail import CreditReport
from support.records import outside_party

REPORT = CreditReport(
    report_id="1", end_to_end_id="E99999004202607011500abcdefghijk", amount_cents=1000, debit_party=outside_party(),
    credit_party=outside_party(), txid=None, initiation_type="KEY", reported_at=datetime(2026, 7, 1, tzinfo=UTC),
)  # fmt: skip


def test_a_report_that_tells_no_parts_has_the_fingerprint_of_before_there_were_any() -> None:
    said = msgspec.to_builtins(REPORT)
    for younger in ("report_id", "reported_at", "settled_at", "parts"):
        del said[younger]
    before = hashlib.sha256(json.dumps([1, "contradiction", said], sort_keys=True).encode()).digest()
    assert fingerprint(REPORT, "contradiction") == before
    told = structs.replace(REPORT, parts=DayAmount(original_cents=1000))
    assert fingerprint(told, "contradiction") != before
