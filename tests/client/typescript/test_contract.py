"""The TypeScript client agrees with the OpenAPI document, and its generated files are up to date."""

import json
import re
from collections import Counter

import pytest

from pixconnect_client import version
from scripts.pages import clients, typescript
from scripts.pages.schema import MEND
from support.toolchains import TYPESCRIPT

OPERATIONS = {operation["operationId"] for _, _, operation in typescript.list_operations()}


@pytest.mark.parametrize("name", ["types.ts", "operations.ts"])
def test_what_is_made_of_the_document_is_what_it_says(name: str) -> None:
    path = typescript.FOLDER / name
    assert path.read_text(encoding="utf-8") == typescript.write_files()[path], MEND


def test_each_operation_has_a_method_and_each_method_an_operation() -> None:
    asked = Counter(operation for _, operation in clients.list_typescript_methods())
    assert set(asked) == OPERATIONS


def test_both_clients_have_the_same_methods() -> None:
    """By name, in the conventions of each language."""
    in_python = {name for name, _, _ in clients.list_python_methods()}
    in_typescript = {re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", name) for name, _ in clients.list_typescript_methods()}
    assert in_python == in_typescript


def test_it_has_the_version_of_the_other_client_and_says_it() -> None:
    package = json.loads((TYPESCRIPT / "package.json").read_text())
    assert package["version"] == version.__version__
    assert f'VERSION = "{version.__version__}"' in (TYPESCRIPT / "src" / "version.ts").read_text()


def test_its_tools_are_locked_by_hash_without_saying_where_they_come_from() -> None:
    lock = json.loads((TYPESCRIPT / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all(package["integrity"] and package["dev"] for package in packages.values())
    assert not [name for name, package in packages.items() if "resolved" in package]
    wanted = json.loads((TYPESCRIPT / "package.json").read_text())["devDependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def test_its_files_can_be_read_at_once() -> None:
    own = [path for path in (TYPESCRIPT / "src").glob("*.ts") if path not in typescript.write_files()]
    assert own
    assert [path.name for path in own if len(path.read_text().splitlines()) > 400] == []
