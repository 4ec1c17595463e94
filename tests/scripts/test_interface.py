"""The committed table of operations has the program's."""

from scripts.pages import interface
from scripts.pages.schema import MEND


def test_it_has_the_operations_of_the_program() -> None:
    page = interface.write_page()
    assert "| `GET /v1/connect/charge/{id}` | Read a charge by its id | `charge.read` |" in page
    assert interface.FILE.read_text(encoding="utf-8") == page, MEND
