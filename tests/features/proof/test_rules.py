"""The digests of the chain, compared with vectors by ``sha256sum``, and files of heads."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.features.proof.rules import (
    HEADS_TOLD,
    ChainHead,
    digest_entry,
    digest_person,
    first_head,
    format_heads,
    next_head,
    parse_heads,
)
from pixconnect.platform.base import errors

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "chain.json").read_text())
HEAD = ChainHead(holder_id=7, position=2, head="ab" * 32, chained_at=datetime(2026, 7, 1, 15, tzinfo=UTC))


@pytest.mark.parametrize("vector", VECTORS["entries"])
def test_an_entry_has_the_documented_digest(vector: dict[str, str | None]) -> None:
    facts, person, salt = vector["facts"], vector["person"], vector["salt"]
    assert facts is not None
    person_digest = None if person is None or salt is None else digest_person(bytes.fromhex(salt), person)
    assert (person_digest and person_digest.hex()) == vector["person_digest"]
    assert digest_entry(facts, person_digest).hex() == vector["digest"]


def test_heads_follow_each_other() -> None:
    head = first_head(VECTORS["holder_id"])
    assert head.hex() == VECTORS["first_head"]
    for vector in VECTORS["heads"]:
        head = next_head(head, [bytes.fromhex(digest) for digest in vector["digests"]])
        assert head.hex() == vector["head"]


@settings(max_examples=20)
@given(
    st.lists(
        st.builds(
            ChainHead,
            holder_id=st.integers(1, 2**53),
            position=st.integers(1, 2**40),
            head=st.binary(min_size=32, max_size=32).map(bytes.hex),
            chained_at=st.datetimes(timezones=st.just(UTC)),
        ),
        max_size=3,
    )
)
def test_a_file_of_heads_is_read_as_it_was_written(heads: list[ChainHead]) -> None:
    assert parse_heads(format_heads(heads).splitlines()) == heads


def test_lines_of_a_log_are_read_for_the_heads_that_they_tell() -> None:
    heads = [structs.replace(HEAD, holder_id=None, chain=name) for name in ("audit", "entries")]
    told = dict(timestamp="2026-07-01", event=HEADS_TOLD, level="info", heads=heads)
    others = [dict(event="health changed", heads=3), dict(event="request", path="/livez")]
    lines = [json.dumps(line, default=msgspec.to_builtins).encode() for line in (others[0], told, others[1])]
    assert parse_heads([*lines, format_heads([HEAD])]) == [*heads, HEAD]
    for wrong in (b'{"event": "heads of the chains"}', b'{"event": 3}', b"worker: started"):
        with pytest.raises(errors.BadRequest, match="heads: line 3: "):
            parse_heads([*lines[:2], wrong])


def test_a_head_is_of_a_holder_or_of_a_chain_of_the_installation() -> None:
    for of in (b"", b'"holder_id":7,"chain":"audit",', b'"chain":"ledger",'):
        line = b'{%b"position":1,"head":"%b","chained_at":"2026-07-01T15:00:00Z"}' % (of, b"ab" * 32)
        with pytest.raises(errors.BadRequest, match="heads: line 1: "):
            parse_heads([line])


@pytest.mark.parametrize("line", [b"", b"{}", b'{"holder_id":0}', format_heads([HEAD])[:-9], b"\xff", b"[]", b"null"])
def test_a_line_that_is_no_head_is_named(line: bytes) -> None:
    with pytest.raises(errors.BadRequest, match="heads: line 2: "):
        parse_heads([format_heads([HEAD]), line])
