"""Output for terminals, pipes and scripts."""

import pytest

from pixconnect.doors.cli import output, terminal
from pixconnect.doors.cli.failures import CommandError

CHARGES: list[output.Shown] = [
    {"id": 6, "status": "PENDING", "amount": 100_000_050, "payer": {"name": "Ana"}, "note": None},
    {"id": 515, "status": "APPROVED", "amount": 5, "payer": {"name": "Maria Silva"}},
]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return capsys


def _show(*, as_json: bool = False) -> None:
    output.show_list("charges", CHARGES, as_json=as_json, columns=("id", "status", "amount"), money=("amount",))


def test_a_terminal_shows_a_table_in_colours(screen: pytest.CaptureFixture[str]) -> None:
    _show()
    assert screen.readouterr().out == (
        "\033[2m id  status             amount\033[0m\n"
        "  6  \033[33mPENDING\033[0m   R$ 1.000.000,50\n"
        "515  \033[32mAPPROVED\033[0m          R$ 0,05\n"
    )


def test_no_colour_is_shown_if_unwanted(screen: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    _show()
    assert "\033" not in screen.readouterr().out


def test_a_narrow_terminal_shows_no_table(screen: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    _show()
    assert screen.readouterr().out == (
        "id: 6\nstatus: PENDING\namount: R$ 1.000.000,50\n\nid: 515\nstatus: APPROVED\namount: R$ 0,05\n"
    )


def test_a_pipe_gets_a_line_each_and_scripts_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    _show()
    assert capsys.readouterr().out.splitlines()[1:] == ["  6  PENDING   R$ 1.000.000,50", "515  APPROVED          R$ 0,05"]
    _show(as_json=True)
    assert capsys.readouterr().out == (
        '{"charges":[{"id":6,"status":"PENDING","amount":100000050,"payer":{"name":"Ana"}},'
        '{"id":515,"status":"APPROVED","amount":5,"payer":{"name":"Maria Silva"}}]}\n'
    )


def test_what_is_inside_of_a_thing_has_a_line_with_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    output.show(CHARGES[0], as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == "payer.name: Ana"


def test_people_get_every_sum_in_cents_as_reais(capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"there_cents": 100, "allowed": {"day_cents": None, "transfer_cents": 5}, "count": 5}, as_json=False)
    assert capsys.readouterr().out == "there_cents: R$ 1,00\nallowed.transfer_cents: R$ 0,05\ncount: 5\n"


def test_a_script_gets_one_member_as_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    for field, printed in (("charges.1.payer.name", "Maria Silva\n"), ("charges.0.amount", "100000050\n")):
        chosen = terminal.field.set(field)
        _show(as_json=True)
        terminal.field.reset(chosen)
        assert capsys.readouterr().out == printed
    chosen = terminal.field.set("charges.0.payr")
    with pytest.raises(CommandError, match=r"^--field: the result has no charges\.0\.payr; it has id, status, amount, payer$"):
        _show(as_json=True)
    terminal.field.reset(chosen)


def test_a_wide_terminal_shows_more(screen: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    items = [item | {"note": "a note"} for item in CHARGES]
    for width, heading in ((9, "id: 6"), (13, " id  status"), (20, " id  status"), (21, " id  status    note"), (80, None)):
        monkeypatch.setenv("COLUMNS", str(width))
        output.show_list("charges", items, as_json=False, columns=("id", "status"), if_wide=("note", "amount"))
        assert screen.readouterr().out.splitlines()[0] == (heading or " id  status    note       amount")


def test_long_ids_are_cut_in_the_middle_to_fit(screen: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    items: list[output.Shown] = [{"id": 7, "end_to_end_id": "E99999004202611271200AbCdEfGhIjK"}]
    output.show_list("transfers", items, as_json=False, columns=("id", "end_to_end_id"))
    assert screen.readouterr().out == "id  end_to_end_id\n 7  E999990042…CdEfGhIjK\n"
