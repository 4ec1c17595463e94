"""PostgreSQL's log is judged by whole messages, and the sum of the books by its finding."""

from pathlib import Path

from support.chaos.judging import read_refusals

_AT = "2026-11-23 09:01:02.003 UTC [77] "


def refusals(home: Path, *lines: str, end: str = "\n") -> list[str]:
    (home / "postgres.log").write_text("\n".join(lines) + end)
    return read_refusals(home)


def test_what_the_schema_refuses_is_told_once_with_its_number(tmp_path: Path) -> None:
    said = f'{_AT}ERROR:  new row for relation "charge" violates check constraint "x"'
    assert refusals(tmp_path, said, f"{_AT}LOG:  checkpoint starting: time", said) == [
        'database\'s log: refused 2 times: new row for relation "charge" violates check constraint "x"'
    ]


def test_a_login_that_lacks_a_right_is_told_and_one_that_came_too_early_is_not(tmp_path: Path) -> None:
    lacks = 'FATAL:  permission denied to set role "x"'
    assert refusals(tmp_path, f"{_AT}{lacks}", f"{_AT}FATAL:  the database system is starting up") == [
        f"database's log: refused 1 times: {lacks}"
    ]


def test_an_outage_and_a_race_are_no_refusals(tmp_path: Path) -> None:
    said = ("could not extend file: No space left on device", "duplicate key value violates unique constraint")
    assert refusals(tmp_path, *(f"{_AT}ERROR:  {words}" for words in said)) == []


def test_a_message_that_a_full_disk_cut_short_is_not_judged(tmp_path: Path) -> None:
    torn, whole = f"{_AT}ERROR:  could not ext", f"{_AT}ERROR:  tuple is not there"
    assert refusals(tmp_path, f"{torn}{_AT}LOG:  checkpoint starting: time", torn, end="") == []
    assert refusals(tmp_path, f"{torn}{whole}") == ["database's log: refused 1 times: tuple is not there"]
