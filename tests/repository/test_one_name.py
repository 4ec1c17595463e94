"""A public name of the source means one thing, so that who searches for it finds that thing and nothing else."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from support.sources import PARSED, parse

pytestmark = pytest.mark.xdist_group(PARSED)

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pixconnect"
DOORS = ("api.contract", "api.standard", "cli.integrator", "cli.operator", "cli.running", "console", "sandbox.outside")
"""Where the same act may be asked for, under the same name. Of the sandbox, what its port calls."""
QUALIFYING = {"all", "any", "by", "due", "external", "id", "ids", "named", "newest", "next", "old", "page", "received"}
"""Words that say which and how, and not what: what ``find_by_id`` finds is said by the module, before the point."""


def test_no_class_name_means_two_things() -> None:
    """The wire form of a record may be called as the record is, whose module it then imports."""
    found = {
        name: modules
        for name, modules in _modules_by_name(ast.ClassDef).items()
        if len(modules) > 1 and not _is_a_wire_form_of_the_other(modules)
    }
    assert not found, f"give one of each another name: {found}"


def test_no_function_name_means_two_things() -> None:
    """One act may have one name on each floor, where one imports the other, and at each door.

    A verb alone, or with a word that says which, is completed by its module: ``refund.find_by_id``.
    """
    found = {
        name: modules
        for name, modules in _modules_by_name(ast.FunctionDef, ast.AsyncFunctionDef).items()
        if any(word not in QUALIFYING for word in name.strip("_").split("_")[1:]) and not _are_one_act(modules)
    }
    assert not found, f"give one of each another name: {found}"


def _is_a_wire_form_of_the_other(modules: list[str]) -> bool:
    forms = [module for module in modules if module.startswith("pixconnect.api.")]
    records = [module for module in modules if module not in forms]
    return len(forms) == len(records) == 1 and records[0] in _answered_with(forms[0])


def _answered_with(form: str) -> set[str]:
    """The modules that a wire form's module imports, and those that the use cases among them do."""
    imported = _imports()[form]
    return imported.union(*(_imports()[each] for each in imported if "usecases" in each and each in _imports()))


def _are_one_act(modules: list[str]) -> bool:
    by_door: dict[str, list[str]] = {}
    for module in modules:
        by_door.setdefault(_door(module), []).append(module)
    between_doors = [
        (one, other)
        for one, other in combinations(modules, 2)
        if _door(one) and _door(other) and _door(one) != _door(other)
    ]
    return all(_are_connected(each, ()) for each in by_door.values()) and _are_connected(modules, between_doors)


def _are_connected(modules: list[str], also: Iterable[tuple[str, str]]) -> bool:
    """Whether imports, and these pairs also, lead from each of the modules to each other."""
    pairs = [
        *also,
        *(
            (one, other)
            for one, other in combinations(modules, 2)
            if other in _imports()[one] or one in _imports()[other]
        ),
    ]
    reached = {modules[0]}
    for _ in modules:
        reached |= {module for pair in pairs if reached & set(pair) for module in pair}
    return len(reached) == len(modules)


def _door(module: str) -> str:
    """The door that a module is behind; empty inside, where each name is one thing."""
    return next((door for door in DOORS if module.startswith((f"pixconnect.{door}.", f"pixconnect.{door}"))), "")


@cache
def _modules_by_name(*kinds: type[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module, tree in _trees().items():
        for statement in tree.body:
            if isinstance(statement, kinds) and not statement.name.startswith("_"):
                found.setdefault(statement.name, []).append(module)
    return found


@cache
def _imports() -> dict[str, set[str]]:
    return {module: set(_imported(tree)) for module, tree in _trees().items()}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _trees() -> dict[str, ast.Module]:
    return {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): parse(path)
        for path in sorted(SOURCE.rglob("*.py"))
    }
