"""Tables in pages of ``docs/reference`` that are written by hand: operations, errors and scopes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pixconnect.features.documentation.errors import list_errors
from pixconnect.kernel.rules.access import SCOPE_TEXTS
from scripts.pages.schema import ROOT
from scripts.pages.typescript import DOCUMENT, scope_of

REFERENCE: Final = ROOT / "docs" / "reference"


def write_pages() -> dict[Path, str]:
    """The pages with their tables as the program is."""
    errors = (f"| {status} | {code} | {meaning.replace('``', '`')} |" for status, code, meaning in list_errors())
    scopes = (f"| `{scope}` | {text} |" for scope, text in SCOPE_TEXTS.items())
    return dict(
        [
            _fill("api.md", "operations", "| Request | Purpose | Scope |", _list_operations()),
            _fill("errors.md", "errors", "| Status | Code | Meaning |", errors),
            _fill("access.md", "scopes", "| Scope | Allows |", scopes),
        ]
    )


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
