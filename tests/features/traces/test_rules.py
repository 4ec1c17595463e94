"""A ``traceparent`` is read by W3C Trace Context; an invalid one is ignored."""

import pytest

from pixconnect.features.traces.rules import TraceParent, parse_traceparent, write_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),  # a flag of the second level
        (f"00-{TRACE}-{SPAN}-02", False),
        (f" \t00-{TRACE}-{SPAN}-01 ", True),
        (f"cc-{TRACE}-{SPAN}-01", True),  # a later version
        (f"cc-{TRACE}-{SPAN}-01-what-will-be", True),
    ],
)
def test_what_is_well_formed_is_read_and_written_as_the_first_version_has_it(text: str, is_sampled: bool) -> None:
    parent = parse_traceparent(text)
    assert parent == TraceParent(int(TRACE, 16), int(SPAN, 16), is_sampled)
    assert write_traceparent(parent) == f"00-{TRACE}-{SPAN}-{'01' if is_sampled else '00'}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0",
        f"00-{TRACE}-{SPAN}-0x",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",  # it came twice
        f"00-{TRACE}-{SPAN}-01\r\nx-other: 1",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 1000}",
        f"00-{TRACE.replace('0', chr(0xFF10))}-{SPAN}-01",
    ],
)
def test_what_is_malformed_is_none(text: str) -> None:
    assert parse_traceparent(text) is None
