"""The page about the interface is what the table of operations says."""

from pathlib import Path

from pixconnect.api.reference import write_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_reference(), (
        "run: python -m pixconnect.api.reference > docs/reference/api.md"
    )
