"""The formats of webhooks, of this feature and of another one."""

import sys
from types import SimpleNamespace

import pytest

from pixconnect import features
from pixconnect.features.webhooks.service import delivery
from pixconnect.kernel.feature import Feature
from support.records import make_endpoint


def test_an_endpoint_has_the_format_of_the_first_feature_that_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(url="https://other.example/", retry_waits=None)
    formats = (delivery.Formats(lambda endpoint: other if endpoint.profile in {"other", "efi"} else None),)  # type: ignore[arg-type, return-value]
    module = SimpleNamespace(FEATURE=Feature(delivery_formats=("features.other:FORMATS",)), FORMATS=formats)
    monkeypatch.setattr(features, "NAMES", ("pix_api", "other"))
    monkeypatch.setitem(sys.modules, "pixconnect.features.other", module)  # type: ignore[arg-type]
    monkeypatch.setattr(delivery, "_list_formats", delivery._list_formats.__wrapped__)
    terms = [dict(pix_key="k"), dict(profile="efi"), dict(profile="other"), dict(pix_key="k", profile="other"), {}]
    urls = [delivery.Recipient(make_endpoint(**each)).url for each in terms]
    assert urls == ["https://shop.example/pix", "https://shop.example/", other.url, other.url, "https://shop.example/"]
