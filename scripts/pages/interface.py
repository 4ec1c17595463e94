"""The table of operations in ``docs/reference/api.md``, from the OpenAPI document; the rest is written by hand."""

from collections.abc import Iterator
from typing import Final

from scripts.pages.schema import ROOT
from scripts.pages.typescript import DOCUMENT, scope_of

FILE: Final = ROOT / "docs" / "reference" / "api.md"
_BEGIN: Final = "<!-- operations: written by `make docs` -->\n"
_END: Final = "<!-- operations: end -->\n"


def write_page() -> str:
    """The page with its table as the program is."""
    head, _, rest = FILE.read_text(encoding="utf-8").partition(_BEGIN)
    table = "\n".join(["", "| Request | Purpose | Scope |", "|---|---|---|", *_list_rows(), "", ""])
    return head + _BEGIN + table + _END + rest.partition(_END)[2]


def _list_rows() -> Iterator[str]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                scope = scope_of(operation)
                needed = "public" if scope is None else f"`{scope}`" if scope else "any"
                yield f"| `{method.upper()} {path}` | {operation['summary']} | {needed} |"
