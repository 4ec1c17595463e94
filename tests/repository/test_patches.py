"""What a test changes in our own modules is an argument that is missing: there are ever fewer of these."""

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PATCHES_MAX = 84


def test_what_tests_replace_in_our_modules_does_not_grow() -> None:
    """Give the function its time, limit or part as an argument; where there is one fewer, lower the number.

    A default is bound when its function is made: who still replaces the constant then changes nothing, and hears nothing.
    """
    found = [
        f"{file.relative_to(TESTS)}:{line}" for file in sorted(TESTS.rglob("*.py")) for line in sorted(_patches(file))
    ]
    assert len(found) <= PATCHES_MAX, "\n".join(found)


def _patches(file: Path) -> list[int]:
    """The lines where ``setattr`` of a patch replaces something of a module or class of ours, or in one."""
    text = file.read_text(encoding="utf-8")
    if ".setattr(" not in text:
        return []
    nodes = list(ast.walk(ast.parse(text)))
    ours = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pixconnect"
        for alias in node.names
    }
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "setattr"
        and node.args
        and _root(node.args[0]) in ours | {"pixconnect"}
    ]


def _root(target: ast.expr) -> str:
    while isinstance(target, ast.Attribute):
        target = target.value
    if isinstance(target, ast.Constant):
        return str(target.value).split(".", maxsplit=1)[0]
    return target.id if isinstance(target, ast.Name) else ""
