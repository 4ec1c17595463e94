"""What keeps the source easy to read, as measures: each limit stands here, and is lowered when the source allows it."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sources import PARSED, parse

SOURCE = Path(__file__).resolve().parents[2] / "src"

DOCSTRING_LINES_PERCENT_MAX = 13.5
COMMENT_LINES_PERCENT_MIN = 2.0
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
COLUMNS_MAX = 160
QUOTED_ANNOTATIONS_MAX = 0

# All read the same trees, which one worker makes once.
pytestmark = pytest.mark.xdist_group(PARSED)

FILES = sorted(SOURCE.rglob("*.py"))
Trees = dict[Path, ast.Module]
_NOT_ANNOTATIONS = {"Literal", "Annotated"}
"""What stands in their brackets in quotes is a value."""


@pytest.fixture(scope="module")
def trees() -> Trees:
    return {file: parse(file) for file in FILES}


def test_docstrings_do_not_outgrow_the_code(trees: Trees) -> None:
    lines_count = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in FILES)
    docstring_lines_count = sum(
        statement.end_lineno - statement.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        and statement.end_lineno is not None
    )
    percent = 100 * docstring_lines_count / lines_count
    assert percent <= DOCSTRING_LINES_PERCENT_MAX, f"{percent:.1f} % of all lines are docstrings"


def test_branches_orders_and_numbers_have_their_reasons_beside_them() -> None:
    lines_count = comments_count = 0
    for file in FILES:
        lines_count += len(file.read_text(encoding="utf-8").splitlines())
        with file.open("rb") as stream:
            comments_count += sum(token.type == tokenize.COMMENT for token in tokenize.tokenize(stream.readline))
    assert 100 * comments_count / lines_count >= COMMENT_LINES_PERCENT_MIN


def test_files_and_functions_can_be_read_at_once(trees: Trees) -> None:
    too_long = [
        f"{file.relative_to(SOURCE)} has {count} lines"
        for file in FILES
        if (count := len(file.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    ]
    too_long += [
        f"{file.relative_to(SOURCE)}: {node.name} has {count} lines"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert too_long == []


def test_what_only_our_own_defect_can_break_is_said_by_one_way() -> None:
    """``ensure``, ``require`` or ``InvariantBroken``: ``python -O`` leaves an assertion out, which the lints refuse."""
    bare = [file.relative_to(SOURCE) for file in FILES if "AssertionError(" in file.read_text(encoding="utf-8")]
    assert bare == [], "raise errors.InvariantBroken"


def test_a_line_is_seen_at_once() -> None:
    too_wide = [
        f"{file.relative_to(SOURCE)}:{number}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS_MAX
    ]
    assert too_wide == []


def test_an_import_for_types_alone_says_why_it_is_not_an_ordinary_one() -> None:
    silent = [
        f"{file.relative_to(SOURCE)}: say on the line why this is no ordinary import"
        for file in FILES
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("if TYPE_CHECKING:") and not re.search(r"  # \w", line)
    ]
    assert silent == []


def test_annotations_have_no_quotes(trees: Trees) -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{quoted.lineno}: {quoted.value!r}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        for annotation in _annotations(node)
        for quoted in _quoted(annotation)
    ]
    assert len(found) <= QUOTED_ANNOTATIONS_MAX, "\n".join(found)


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        yield node.returns
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        yield node.annotation


def _quoted(annotation: ast.expr) -> Iterator[ast.Constant]:
    """The texts in an annotation that stand for a type."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield annotation
    elif not (
        isinstance(annotation, ast.Subscript)
        and isinstance(annotation.value, ast.Name)
        and annotation.value.id in _NOT_ANNOTATIONS
    ):
        for child in ast.iter_child_nodes(annotation):
            if isinstance(child, ast.expr):
                yield from _quoted(child)
