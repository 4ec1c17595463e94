"""Webhooks that all clients must judge alike: vectors shared with the TypeScript client's tests."""

import base64
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from pixconnect_client import (
    InvalidWebhook,
    UnknownSigningKey,
    verify_notice,
    verify_webhook,
    verify_webhook_body,
    verify_webhook_jws,
)

VECTORS: Final[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "vectors" / "webhooks.json").read_text())


def judge(case: dict[str, Any]) -> Any:
    """The package's result: id and name of the event, or each ``endToEndId`` of a notice."""
    usual = VECTORS["notice" if case["form"] == "notice" else "event"]
    body = base64.b64decode(case["body_base64"]) if "body_base64" in case else case.get("body", usual).encode()
    window: Any = dict(now=lambda: case.get("now", VECTORS["now"]), tolerance_s=case.get("tolerance_s", 300))
    keys, headers = case.get("keys", VECTORS["keys"]), case["headers"]
    match case["form"]:
        case "standard":
            event = verify_webhook(body, headers, case["secrets"], **window)
        case "body":
            event = verify_webhook_body(body, headers, case["secrets"])
        case "jws":
            event = verify_webhook_jws(body, headers, keys, case["holder_id"], **window)
        case _:
            told = verify_notice(body, headers, keys, case["holder_id"], case["pix_keys"], **window)
            return [pix["endToEndId"] for pix in told]
    return dict(id=event.id, name=event.name)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_a_webhook_is_judged_as_the_vectors_say(case: dict[str, Any]) -> None:
    if "told" in case:
        assert judge(case) == case["told"]
        return
    with pytest.raises(InvalidWebhook, match=re.escape(case["refused"])) as refused:
        judge(case)
    assert isinstance(refused.value, UnknownSigningKey) == case.get("is_unknown_key", False)


def test_each_form_is_told_and_refused() -> None:
    assert {(case["form"], "told" in case) for case in VECTORS["cases"]} == {
        (form, is_told) for form in ("standard", "body", "jws", "notice") for is_told in (True, False)
    }
