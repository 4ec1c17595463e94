"""The TypeScript client, compiled and run by Node.js: alone, and against a whole service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.pages.clients import list_typescript_methods
from support import pages, toolchains

if TYPE_CHECKING:
    from pixconnect_client.testing.holder import Pix

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("typescript")]

VECTORS = toolchains.ROOT / "tests" / "vectors" / "webhooks.json"
GUIDE = toolchains.ROOT / "docs" / "guides" / "typescript-client.md"
AS_PROGRAMS_DO = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node")

REQUIRED = """
import pix = require("pixconnect-client");

const client: pix.Client = new pix.Client({ baseUrl: "https://pix.example", clientId: "a", clientSecret: "b" });
const find = (id: number): Promise<pix.Charge> => client.charges.get(id);
console.log(typeof find === "function" ? pix.NotFound.name : "");
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published: compiled for ``import`` and for ``require``."""
    folder = toolchains.take_typescript(tmp_path_factory.mktemp("typescript"))
    toolchains.run(folder, "npm", "run", "--silent", "build")
    return folder


def run_tests(package: Path, *names: str, **variables: str) -> None:
    said = toolchains.run(package, "node", "--test", "--test-reporter=tap", *names, **variables)
    counts = dict(re.findall(r"^# (tests|pass|fail|skipped) (\d+)$", said, re.MULTILINE))
    assert counts["fail"] == counts["skipped"] == "0"
    assert int(counts["pass"]) >= len(names)


def test_its_own_tests_pass(package: Path) -> None:
    own = sorted(str(path.relative_to(package)) for path in (package / "test").glob("*.test.js"))
    own.remove("test/service.test.js")
    run_tests(package, *own, PIXCONNECT_VECTORS=str(VECTORS))


@pytest.mark.pix(balance=1_000_000)
def test_it_keeps_money_safe_against_a_service(package: Path, pix: Pix) -> None:
    more = dict(PIXCONNECT_HOLDER_ID=str(pix.holder_id), PIX_KEY=pix.key)
    run_tests(package, "test/service.test.js", **pix.environment, **more)


def test_each_method_asks_for_the_operation_that_the_reference_names(package: Path) -> None:
    asked = json.loads(toolchains.run(package, "node", "test/surface.js"))
    assert asked == dict(list_typescript_methods())


def test_nothing_but_what_is_compiled_is_published_and_nothing_else_is_needed(package: Path) -> None:
    (packed,) = json.loads(toolchains.run(package, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"))
    names = {file["path"] for file in packed["files"]}
    assert {
        "LICENSE", "README.md", "package.json", "dist/esm/index.js", "dist/cjs/index.js", "dist/cjs/package.json",
    } <= names  # fmt: skip
    assert all(name.startswith("dist/") for name in names - {"LICENSE", "README.md", "package.json"})
    assert "dependencies" not in json.loads((package / "package.json").read_text())
    imported = {
        found
        for path in (package / "dist" / "esm").glob("*.js")
        for found in re.findall(r'^(?:import|export) .*from "([^"]+)"', path.read_text(), re.MULTILINE)
    }
    assert {name for name in imported if not name.startswith("./")} == {"node:crypto"}


@pytest.mark.pix(balance=1_000_000)
def test_the_guides_programs_have_the_right_types_and_run(package: Path, pix: Pix) -> None:
    blocks = [block for page in (GUIDE, package / "README.md") for block in pages.read_blocks(page)]
    programs = [block.text for block in blocks if block.language == "typescript"]
    assert len(programs) > 4
    # As a program's own folder, with the package among its packages.
    folder = package / "programs"
    (folder / "node_modules").mkdir(parents=True)
    (folder / "package.json").write_text('{ "type": "module" }')
    (folder / "node_modules" / "pixconnect-client").symlink_to(package)
    (folder / "node_modules" / "@types").symlink_to(toolchains.TYPESCRIPT / "node_modules" / "@types")
    names = [f"program{number}.ts" for number in range(len(programs))]
    for name, text in zip(names, programs, strict=True):
        (folder / name).write_text(text)
    # Loaded by `require` it has its types and runs, too.
    (folder / "required.cts").write_text(REQUIRED)
    toolchains.run(folder, "../node_modules/.bin/tsc", *AS_PROGRAMS_DO, *names, "required.cts")
    assert toolchains.run(folder, "node", "required.cjs") == "NotFound\n"
    told = dict(PIX_KEY=pix.key, PIXCONNECT_HOLDER_ID=str(pix.holder_id))
    for name in names:
        toolchains.run(folder, "node", f"{Path(name).stem}.js", **pix.environment, **told)
