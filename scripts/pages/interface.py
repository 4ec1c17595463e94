"""Tables in pages of ``docs/reference`` that are written by hand: operations, errors and scopes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pixconnect.doors.api import envelope
from pixconnect.kernel.rules.access import SCOPE_TEXTS
from pixconnect.platform.base import errors
from scripts.pages.schema import ROOT
from scripts.pages.typescript import DOCUMENT, scope_of

REFERENCE: Final = ROOT / "docs" / "reference"


def write_pages() -> dict[Path, str]:
    """The pages with their tables as the program is."""
    listed = (f"| {status} | {code} | {meaning.replace('``', '`')} |" for status, code, meaning in list_errors())
    scopes = (f"| `{scope}` | {text} |" for scope, text in SCOPE_TEXTS.items())
    return dict(
        [
            _fill("api.md", "operations", "| Request | Purpose | Scope |", _list_operations()),
            _fill("errors.md", "errors", "| Status | Code | Meaning |", listed),
            _fill("access.md", "scopes", "| Scope | Allows |", scopes),
        ]
    )


def list_errors() -> list[tuple[int, str, str]]:
    """List status, code and meaning of every error, by status."""
    kinds: list[type[errors.PixConnectError]] = [errors.PixConnectError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    # Classes without a code of their own only group others.
    meanings = {kind.code: (kind.__doc__ or "").partition("\n")[0] for kind in kinds if "code" in vars(kind)}
    return [(status, code, meanings[code]) for code, status in envelope.list_statuses().items()]


def _fill(page: str, name: str, heading: str, rows: Iterator[str]) -> tuple[Path, str]:
    begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- {name}: end -->\n"
    head, _, rest = (REFERENCE / page).read_text(encoding="utf-8").partition(begin)
    table = "\n".join(["", heading, "|---" * (heading.count("|") - 1) + "|", *rows, "", ""])
    return REFERENCE / page, head + begin + table + end + rest.partition(end)[2]


def _list_operations() -> Iterator[str]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                scope = scope_of(operation)
                needed = "public" if scope is None else f"`{scope}`" if scope else "any"
                yield f"| `{method.upper()} {path}` | {operation['summary']} | {needed} |"
