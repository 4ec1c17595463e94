"""The register of personal data has each column that can hold texts, and matches the program's behaviour."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pixconnect.kernel.baseline import read_service_steps
from pixconnect.kernel.register import NOT_PERSONAL, RETENTIONS, TEXT_COLUMNS, parse_retentions
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.tables.transfer import encode_party
from pixconnect.platform.config import Settings
from pixconnect.platform.migrations import read_steps

ROOT = Path(__file__).resolve().parents[2]
STORE = read_service_steps().baseline.sql
PROOF = read_steps("pixconnect.features.proof.tables").baseline.sql
# Types that cannot hold anybody's texts; of other types it is unknown.
NUMBERS = re.compile(
    r"(bigint|integer|smallint|boolean|timestamp|date|uuid|double|interval|ledger_account|entry_cause|cause_state)\b"
)
NOW = datetime(2026, 11, 24, tzinfo=UTC)
HEAD = "data,whose,at_least,at_most,since,clock,ends,standing,source,says,why"
ROW = "message,payers,90,180,,the Pix,worker,ours,a page,What,Why"


def read_text_columns(schema: str) -> set[tuple[str, str]]:
    found = set[tuple[str, str]]()
    for table in re.finditer(r"^create table (\w+) \(\n(.*?)^\)", schema, re.DOTALL | re.MULTILINE):
        for line in table[2].splitlines():
            column = re.match(r' {4}"?(\w+)"? (\S.*)', line)
            if column and column[1] != "constraint" and not NUMBERS.match(column[2]):
                found.add((table[1], column[1]))
    return found


def test_each_column_that_can_hold_texts_stands_in_the_register() -> None:
    found = set[tuple[str, str]]().union(read_text_columns(STORE), read_text_columns(PROOF))
    assert sorted(found - TEXT_COLUMNS.keys()) == [], "add it to `text_columns` of its feature or of kernel/register"
    assert sorted(TEXT_COLUMNS.keys() - found) == [], "no such column"


def test_a_column_without_a_line_is_seen() -> None:
    schema = 'create table person (\n    id bigint,\n    nickname text,\n    "position" jsonb not null,\n    at date\n)'
    assert read_text_columns(schema) == {("person", "nickname"), ("person", "position")}


def test_each_kind_has_a_row_and_columns_and_a_source() -> None:
    assert set(TEXT_COLUMNS.values()) == {*RETENTIONS.rows, NOT_PERSONAL}
    rows = [kept for rows in RETENTIONS.rows.values() for kept in rows]
    assert [kept.name for kept in rows if not (kept.source and kept.says and kept.why and kept.whose)] == []
    assert [kept.name for kept in rows if kept.standing == "cited" and not re.search(r"\d", kept.source)] == []


def test_the_functions_of_the_database_keep_what_the_register_wants_kept() -> None:
    """The service's login cannot empty more, because the functions contain the minimum ages."""
    schema = STORE
    functions = "".join(re.findall(r"^create function erase_\w+\(.*?^\$function\$;", schema, re.DOTALL | re.MULTILINE))
    found = {(age, int(days)) for age, days in re.findall(r"greatest\((\w+), (?:interval )?'(\d+) days", functions)}
    message, party = RETENTIONS.find("message", NOW), RETENTIONS.find("counterparty", NOW)
    assert found == {("message_age", message.at_least.days), ("party_age", party.at_least.days)}
    # The words of a contest are removed by the age of a party.
    assert RETENTIONS.find("contest", NOW).at_least == party.at_least
    party_text = re.search(r"'(\{.*?\})'::jsonb", schema[schema.index("create function erased_party") :])
    assert party_text is not None
    assert re.sub(r": |, ", lambda found: found[0].strip(), party_text[1]) == encode_party(UNKNOWN_PARTY)


def test_each_text_that_the_worker_ends_is_emptied_by_a_function() -> None:
    functions = re.findall(r"^create function erase_\w+\(.*?^\$function\$;", STORE, re.DOTALL | re.MULTILINE)
    emptied = {
        (table, column)
        for table, assigned in re.findall(r"update (\w+) set ([^;]*?)\s+from ", "".join(functions))
        for column in re.findall(r"(?:^|,)\s*(\w+) = ", assigned)
    }
    # Rows with the origin of requests are deleted, and an order with its end.
    ended = {name for name, rows in RETENTIONS.rows.items() if name != "asked" and rows[0].ends == "worker"}
    kept = {place for place, data in TEXT_COLUMNS.items() if data in ended} - emptied - {("open_order", "br_code")}
    assert sorted(kept) == [], "empty it in a function `erase_...`, and list that in `erasures` of its feature"


def test_events_are_kept_no_longer_than_the_register_says() -> None:
    event = RETENTIONS.find("event", NOW)
    assert event.at_most is not None
    assert Settings().event_retention_days * 1.1 <= event.at_most.days


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (ROW.replace("180", "80"), "row 2: message ends before it may"),
        (ROW.replace("180", ""), "row 2: message: data removed by a worker have an end"),
        (ROW.replace("worker", "never"), "row 2: message: data removed by a worker have an end"),
        (ROW.replace("worker", "nobody"), r"row 2: Invalid enum value 'nobody' - at `\$.ends`"),
        (ROW.replace("90", "ninety"), "row 2: invalid literal"),
        (f"{ROW}\n{ROW}", "row 3: message is not after its former row"),
    ],
)
def test_a_row_that_is_not_as_it_must_be_is_named(row: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_retentions(f"{HEAD}\n{row}")


def test_what_the_register_says_depends_on_the_day() -> None:
    register = parse_retentions(f"{HEAD}\n{ROW}\n{ROW.replace(',180,,', ',120,2027-01-01,')}")
    assert register.find("message", datetime(2026, 12, 31, tzinfo=UTC)).at_most == timedelta(days=180)
    assert register.find("message", datetime(2027, 1, 2, tzinfo=UTC)).at_most == timedelta(days=120)
    assert {kept.ends for kept in register.rows["message"]} == {"worker"}
