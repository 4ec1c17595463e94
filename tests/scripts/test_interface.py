"""The tables in committed pages are the program's."""

from pixconnect.assembly.operations import list_operations
from scripts.pages import interface
from scripts.pages.schema import MEND


def test_pages_have_the_operations_errors_and_scopes_of_the_program() -> None:
    pages = {path.name: text for path, text in interface.write_pages().items()}
    assert "| `GET /v1/connect/charge/{id}` | Read a charge by its id | `charge.read` |" in pages["api.md"]
    assert "| 403 | FORBIDDEN | The token lacks the operation's scope. |" in pages["errors.md"]
    assert "| `ledger.read` | the balance, the transactions, the statement |" in pages["access.md"]
    for name, text in pages.items():
        assert (interface.REFERENCE / name).read_text(encoding="utf-8") == text, MEND


def test_each_rule_is_of_an_operation() -> None:
    rules = {code for row in list_operations(is_sandbox=True) for code in row.rules}
    assert rules == {code for status, code, _ in interface.list_errors() if status == 422}
