"""Clients generated from the served document and OAuth 2 libraries, in TypeScript and Go.

``make programs`` installs the tools and packages; without them the tests are skipped.
"""

from pathlib import Path

import pytest

from support import toolchains
from support.installation import Installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("programs")]

# More than fits into 32 bits.
AMOUNT = 3_000_000_000
PAID_AND_READ = dict(made="PENDING", paid="CONFIRMED", read="APPROVED", amount=AMOUNT, received=AMOUNT, absent="NOT_FOUND")
STANDARD = dict(
    made="ATIVA", read="CONCLUIDA", paid="10.00", returned="DEVOLVIDO", refused=["cob.valor.original"]
)  # the requests of a client of the central bank's Pix API
TYPESCRIPT = "node_modules/.bin/tsc --strict --target es2022 --module nodenext --skipLibCheck"


@pytest.fixture
def variables(service: Installation) -> dict[str, str]:
    """The settings of the programs: the service and their client."""
    sandbox = service.sandbox
    names = ("base_url", "client_id", "client_secret")
    told = {name.upper(): sandbox[name] for name in names}
    return told | dict(PIX_KEY=sandbox["pix_keys"][0], AMOUNT=str(AMOUNT))


def test_openapi_fetch_is_paid(variables: dict[str, str], tmp_path: Path) -> None:
    folder = toolchains.take_node(tmp_path)
    type_for_typescript(folder, f"{variables['BASE_URL']}/openapi.json", "charge.ts")
    assert toolchains.run_json(folder, "node", "charge.js", **variables) == PAID_AND_READ


def type_for_typescript(folder: Path, document: str, program: str) -> None:
    toolchains.run(folder, "node_modules/.bin/openapi-typescript", document, "--output", "schema.d.ts")
    toolchains.run(folder, *TYPESCRIPT.split(), program)


def test_openapi_fetch_speaks_the_pix_api(variables: dict[str, str], tmp_path: Path) -> None:
    folder = toolchains.take_node(tmp_path)
    type_for_typescript(folder, f"{variables['BASE_URL']}/pix/openapi.json", "cob.ts")
    txid = "generatedbyopenapifetch000001"
    said = toolchains.run_json(folder, "node", "cob.js", TXID=txid, **variables)
    assert said == STANDARD | dict(listed=[[txid, "4.00"]])


def test_a_client_of_oapi_codegen_is_paid(variables: dict[str, str], tmp_path: Path) -> None:
    folder = toolchains.take_go(tmp_path)
    generate_in_go(folder, f"{variables['BASE_URL']}/openapi-3.0.json")
    assert toolchains.run_json(folder, "go", "run", "./charge", **variables) == PAID_AND_READ


def generate_in_go(folder: Path, document: str) -> None:
    (folder / "client").mkdir()
    toolchains.run(folder, "go", "tool", "oapi-codegen", "-config", "client.yaml", document)


def test_a_client_of_oapi_codegen_speaks_the_pix_api(variables: dict[str, str], tmp_path: Path) -> None:
    folder = toolchains.take_go(tmp_path)
    generate_in_go(folder, f"{variables['BASE_URL']}/pix/openapi.json")
    txid = "generatedbyoapicodegen000001"
    said = toolchains.run_json(folder, "go", "run", "./cob", TXID=txid, **variables)
    assert said == STANDARD | dict(listed=[[txid, "4.00"]])


@pytest.mark.parametrize("program", ["simple_oauth2.js", "openid_client.js"])
def test_a_library_of_node_logs_in(variables: dict[str, str], tmp_path: Path, program: str) -> None:
    said = toolchains.run_json(toolchains.take_node(tmp_path), "node", program, **variables)
    assert said == dict(statuses=[200, 200], refused="invalid_client")


def test_the_library_of_go_logs_in(variables: dict[str, str], tmp_path: Path) -> None:
    said = toolchains.run_json(toolchains.take_go(tmp_path), "go", "run", "./oauth", **variables)
    assert said == dict(statuses=[200, 200], refused="invalid_client")
