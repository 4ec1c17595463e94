"""Duplicate members in JSON, which a fast reader accepts and a thorough one does not."""

import pytest

from pixconnect.platform.base import errors
from pixconnect.platform.json_members import refuse_repeated

TWICE = b'"amount": 1, "amount": 100}'


@pytest.mark.parametrize(
    "before", [b'"x": "\xff"', b'"x": ' + b"[" * 20_000 + b"]" * 20_000, b'"\xc3\x28": 1'], ids=["text", "depth", "name"]
)
def test_what_cannot_be_looked_through_is_refused(before: bytes) -> None:
    refuse_repeated(b"{" + before + b', "amount": 1}', [b'"amount"'])
    with pytest.raises(errors.BadRequest, match="body: must be valid JSON"):
        refuse_repeated(b"{" + before + b", " + TWICE, [b'"amount"'])
