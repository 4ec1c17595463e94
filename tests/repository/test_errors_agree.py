"""One error tree, one table to HTTP, one page for people: the three agree."""

import re
from collections.abc import Iterator
from pathlib import Path

from pixconnect.doors.api.envelope import STATUSES
from pixconnect.features.documentation.errors import list_errors
from pixconnect.platform.base import errors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"


def kinds(kind: type[errors.PixConnectError] = errors.PixConnectError) -> Iterator[type[errors.PixConnectError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


def test_every_error_with_a_code_has_one_status_and_every_status_an_error() -> None:
    codes = [kind.code for kind in kinds() if "code" in vars(kind)]
    assert sorted(codes) == sorted(STATUSES)
    assert len(set(codes)) == len(codes)


def test_every_error_that_can_be_raised_has_a_code() -> None:
    for kind in kinds():
        assert hasattr(kind, "code") or kind.__subclasses__(), f"{kind.__name__} has no code"


def test_the_page_lists_them_all_with_their_status_and_meaning() -> None:
    rows = re.findall(r"^\| (\d{3}) \| ([A-Z_]+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(str(status), code, meaning.replace("``", "`")) for status, code, meaning in list_errors()]
