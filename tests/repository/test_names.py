"""What is written in this repository names no place that only one machine or one network has, and uses its words as agreed."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from support.sources import PARSED, parse

pytestmark = pytest.mark.xdist_group(PARSED)

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pixconnect"

# Put together here, so that this file does not name them itself.
REGISTRIES = tuple(
    ".".join(words)
    for words in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("proxy.golang", "org"),
        ("docker", "io"),
    )
)
INDEX_OPTIONS = ("--" + "index-url", "--" + "extra-index-url", "--" + "find-links")
PLACES = (
    ".." + "/shared",
    "/work" + "/",
    str(Path.home()) + "/.",
    *([f"{ROOT}/"] if len(ROOT.parts) > 3 else []),  # a clone at /src would find itself everywhere
)

NOT_OUR_WORDS = {
    "customer",
    "data",
    "handler",
    "helper",
    "info",
    "manager",
    "merchant",
    "obj",
    "payment",
    "processor",
    "transaction",
    "user",
    "util",
}
"""Each is one of several things, or none: a holder or a caller, a charge or a transfer."""

# Names with such a word that are somebody else's, and whose they are.
TAKEN_FROM_ELSEWHERE = {
    "ErrorInfo": "a schema of the served OpenAPI document",
    "Handler": "what frameworks call the function that answers a request",
    "IDLE_IN_TRANSACTION_TIMEOUT_MS": "PostgreSQL's setting",
    "MERCHANT_CITY": "EMV's field of a BR Code",
    "MerchantClaim": "EMV's merchant, who presents a code",
    "MerchantCode": "EMV's merchant, who presents a code",
    "MerchantSigner": "EMV's merchant, who presents a code",
    "OUTSIDE_A_TRANSACTION": "the database's transaction",
    "Payment": "the sandbox's wire: POST /sandbox/v1/payments",
    "PaymentRequest": "the sandbox's wire: POST /sandbox/v1/payments",
    "SystemInfo": "a schema of the served OpenAPI document",
    "SystemUser": "the operating system's user",
    "Transaction": "the wire's line of the ledger's list",
    "USER_AGENT": "HTTP's header",
    "NEW_DATA_SIZE": "PostgreSQL's data folder",
    "create_data": "PostgreSQL's data folder",
    "data_version": "PostgreSQL's data folder",
    "data": "the wire's envelope, and what asyncio calls octets that came",
    "data_folder": "PostgreSQL's data folder",
    "data_received": "asyncio's protocol",
    "exc_info": "logging's argument",
    "find_unprivileged_user": "the operating system's user",
    "get_extra_info": "asyncio's transport",
    "handler": "what frameworks call the function that answers a request",
    "info": "the error in the wire's envelope",
    "is_outside_transaction": "the database's transaction",
    "list_transactions": "the wire's list of the ledger",
    "merchant_category": "EMV's field of a BR Code",
    "merchant_city": "EMV's field of a BR Code",
    "merchant_name": "EMV's field of a BR Code",
    "name_system_user": "the operating system's user",
    "transaction": "the database's transaction, and the wire's line of the ledger's list",
    "network_transaction_identification": "that of the institution's own, beside it",
    "transaction_identification": "the wire's name of a txid",
    "user": "the operating system's user",
}


def committed_files() -> list[Path]:
    """Every file that is, or would be, part of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no clone")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_registry_an_index_or_a_place_of_one_machine() -> None:
    forbidden = (*REGISTRIES, *INDEX_OPTIONS, *PLACES)
    found = [
        f"{file.relative_to(ROOT)}: {word}"
        for file in committed_files()
        for word in forbidden
        if word.encode() in file.read_bytes()
    ]
    assert not found


def test_lock_files_are_hashed_throughout() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        for requirement in re.split(r"\n(?=[a-z0-9])", lock.read_text(encoding="utf-8")):
            name = requirement.split("==")[0]
            assert "--hash=sha256:" in requirement, f"{lock.name}: {name} has no hash"


def test_names_are_made_of_the_words_that_were_agreed() -> None:
    found = [
        f"{file.relative_to(SOURCE)}: {name}"
        for file in sorted(SOURCE.rglob("*.py"))
        for name in sorted(_names(file))
        if _has_a_word_that_is_not_ours(name) and name.strip("_") not in TAKEN_FROM_ELSEWHERE
    ]
    assert not found


def test_what_is_excepted_from_the_agreed_words_is_there() -> None:
    names = {name.strip("_") for file in SOURCE.rglob("*.py") for name in _names(file)}
    left_over = sorted(TAKEN_FROM_ELSEWHERE.keys() - names)
    assert not left_over, "remove these exceptions: no name is so any more"
    assert all(map(_has_a_word_that_is_not_ours, TAKEN_FROM_ELSEWHERE))


def test_every_module_says_first_what_it_is_about() -> None:
    for file in sorted(SOURCE.rglob("*.py")):
        said = ast.get_docstring(parse(file))
        assert said, f"{file.relative_to(SOURCE)} has no docstring"


def _has_a_word_that_is_not_ours(name: str) -> bool:
    words = {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
    return bool(words & NOT_OUR_WORDS)


@cache
def _names(file: Path) -> set[str]:
    """The names that a file gives: of functions, classes, arguments and variables."""
    found: set[str] = set()
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_nothing_that_decides_or_keeps_money_relies_on_assertions() -> None:
    """``python -O`` leaves them out; ``errors.ensure`` stays."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ("domain", "usecases", "writing", "store")
        for path in sorted((SOURCE / room).rglob("*.py"))
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Assert)
    ]
    assert found == []
