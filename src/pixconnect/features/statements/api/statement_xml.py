"""Shared by statements in XML: elements, texts that XML can represent, and a document that is sent while it is written.

Elements are built without a namespace and written into a document with a default one, which then applies: with a namespace of
its own, each element would repeat it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Final, Protocol, cast

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]  ours are below

from pixconnect.features.statements.rules import Language, StatementLine


class Node(Protocol):
    """The part of lxml's elements that we use."""

    text: str | None

    def append(self, element: Node, /) -> None:
        """Add a child."""
        ...

    def set(self, name: str, value: str, /) -> None:
        """Add an attribute."""
        ...

    def __iter__(self) -> Iterator[Node]: ...


class XmlDocument(Protocol):
    """A document that is being written."""

    def element(self, tag: str, /, *, nsmap: Mapping[None, str] | None = None) -> AbstractContextManager[object]:
        """Open an element, to be closed at the end of the ``with``."""
        ...

    def write(self, *elements: Node) -> None:
        """Write whole elements."""
        ...

    def flush(self) -> None:
        """Hand everything that was written to the output."""
        ...


class _Library(Protocol):
    def Element(self, tag: str, /) -> Node: ...  # noqa: N802  lxml's name
    def SubElement(self, parent: Node, tag: str, /) -> Node: ...  # noqa: N802
    def xmlfile(self, output: Output, /, *, encoding: str) -> AbstractContextManager[XmlDocument]: ...


_etree: Final = cast(_Library, lxml.etree)  # pyright: ignore[reportUnknownMemberType]
_FOREIGN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Output:
    """A file in memory that holds written octets until they are sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        self._parts.append(part)

    def take(self) -> bytes:
        """The octets written since the last call."""
        taken, self._parts = b"".join(self._parts), []
        return taken


def open_document(output: Output) -> AbstractContextManager[XmlDocument]:
    return _etree.xmlfile(output, encoding="UTF-8")


async def write_lines(
    document: XmlDocument,
    output: Output,
    parts: AsyncIterable[Sequence[StatementLine]],
    append_line: Callable[[Node, StatementLine, Language], None],
    language: Language,
) -> AsyncIterator[bytes]:
    """Write the lines of a statement, and yield each part when it is written."""
    async for lines in parts:
        group = make_group()
        for line in lines:
            append_line(group, line, language)
        document.write(*group)
        # Sent in parts: the statement may be longer than memory.
        document.flush()
        yield output.take()


def make_group() -> Node:
    """Make an element that only holds others, which are written without it."""
    return _etree.Element("group")


def append(parent: Node, tag: str, text: str | None = None) -> Node:
    """Add an element; one without a text is made to hold others."""
    element = _etree.SubElement(parent, tag)
    element.text = text
    return element


def append_path(parent: Node, path: str, text: str) -> None:
    """Add elements one within the other, the last of them with a text.

    Example:
        >>> group, output = make_group(), Output()
        >>> append_path(group, "b/c", "d")
        >>> with open_document(output) as document, document.element("a"):
        ...     document.write(*group)
        >>> output.take()
        b'<a><b><c>d</c></b></a>'
    """
    for tag in path.split("/"):
        parent = _etree.SubElement(parent, tag)
    parent.text = text


def clean(text: str, length_max: int) -> str:
    """Clean another system's text: cut, with U+FFFD for each character that XML 1.0 cannot represent."""
    return _FOREIGN.sub("\ufffd", text[:length_max])


def format_xml_instant(instant: datetime) -> str:
    """Write an instant of any year as ``xs:dateTime``."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
