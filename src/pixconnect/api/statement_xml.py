"""What statements in XML share: elements, texts that XML can carry, and a document that is opened where its lines go.

A document is built whole, but for its lines, with a processing instruction in their place; it is cut there. Lines are built as
elements of no namespace and written between the two halves, where the document's default namespace is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, cast

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]  ours are below

from pixconnect.domain.statement import StatementLine


class Node(Protocol):
    """What is used of lxml's elements."""

    text: str | None

    def append(self, element: Node, /) -> None:
        """Add a child."""
        ...

    def set(self, name: str, value: str, /) -> None:
        """Add an attribute."""
        ...


class _Library(Protocol):
    """What is used of lxml."""

    def Element(self, tag: str, /) -> Node: ...  # noqa: N802  lxml's name
    def SubElement(self, parent: Node, tag: str, /) -> Node: ...  # noqa: N802
    def ProcessingInstruction(self, target: str, /) -> Node: ...  # noqa: N802
    def tostring(self, element: Node, /, *, encoding: str, xml_declaration: bool) -> bytes: ...


_etree: Final = cast(_Library, lxml.etree)  # pyright: ignore[reportUnknownMemberType]
_LINES: Final = "lines"
_MARK: Final = b"<?lines ?>"
_FOREIGN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def open_root(tag: str) -> Node:
    """A new document's outermost element."""
    return _etree.Element(tag)


def append(parent: Node, tag: str, text: str | None = None) -> Node:
    """Add an element; one without a text is there to hold others."""
    element = _etree.SubElement(parent, tag)
    element.text = text
    return element


def append_path(parent: Node, path: str, text: str) -> None:
    """Add elements one within the other, the last of them with a text.

    Example:
        >>> root = open_root("a")
        >>> append_path(root, "b/c", "d")
        >>> mark_lines(root)
        >>> cut_at_lines(root)
        (b'<a><b><c>d</c></b>', b'</a>')
    """
    for tag in path.split("/"):
        parent = _etree.SubElement(parent, tag)
    parent.text = text


def clean(text: str, length_max: int) -> str:
    """A text of other people's, cut, and with a sign in place of each character that XML 1.0 cannot carry."""
    return _FOREIGN.sub("\ufffd", text[:length_max])


def mark_lines(parent: Node) -> None:
    """Say where the lines go."""
    parent.append(_etree.ProcessingInstruction(_LINES))


def cut_at_lines(root: Node) -> tuple[bytes, bytes]:
    """A document, written as what comes before its lines and what after."""
    head, mark, tail = _etree.tostring(root, encoding="UTF-8", xml_declaration=False).partition(_MARK)
    assert mark, "the document says where its lines go"
    return head, tail


def write_lines(lines: Sequence[StatementLine], append_line: Callable[[Node, StatementLine], None]) -> bytes:
    """Some of the lines, without anything around them."""
    around = _etree.Element(_LINES)
    around.text = ""  # or, without lines, it would be written as one tag
    for line in lines:
        append_line(around, line)
    return (
        _etree.tostring(around, encoding="UTF-8", xml_declaration=False)
        .removeprefix(b"<lines>")
        .removesuffix(b"</lines>")
    )


def format_xml_instant(instant: datetime) -> str:
    """An instant of any year as ``xs:dateTime`` wants it."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
