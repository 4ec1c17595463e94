"""What pages say of other people's generators and libraries is what tests run."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATORS = ROOT / "docs" / "guides" / "generate-a-client.md"
BANKS = ROOT / "docs" / "guides" / "bank-integration.md"
LIBRARIES = ROOT / "docs" / "reference" / "access.md"


def pinned() -> dict[str, str]:
    """The versions of packages that tests run, in all languages."""
    programs = ROOT / "tests" / "programs"
    found: dict[str, str] = json.loads((programs / "node" / "package.json").read_text())["dependencies"]
    found |= re.findall(
        r"^\s*(?:require )?(\S+\.\S+/\S+) v(\S+)", (programs / "go" / "go.mod").read_text(), re.MULTILINE
    )
    found |= re.findall(r"^([\w-]+)==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    return found | {"oapi-codegen": found["github.com/oapi-codegen/oapi-codegen/v2"], "TypeScript": found["typescript"]}


def test_pages_name_the_versions_that_tests_run() -> None:
    versions = pinned()
    generators, libraries = GENERATORS.read_text(), LIBRARIES.read_text()
    for name in ("openapi-python-client", "openapi-typescript", "openapi-fetch", "TypeScript", "oapi-codegen"):
        assert f"{name} {versions[name]}" in generators
    for name in ("authlib", "openid-client", "simple-oauth2", "golang.org/x/oauth2"):
        assert f"{name} {versions[name]}" in libraries
    for name in ("pypix-api", "efipay", "sdk-node-apis-efi"):
        assert f"{name} {versions[name]}" in BANKS.read_text()
