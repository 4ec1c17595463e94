"""Shared by statements in XML: elements, texts that XML can represent, and a document that is sent while it is written.

Elements are built without a namespace and written into a document with a default one, which then applies: with a namespace of
its own, each element would repeat it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from typing import Final, Protocol, TypeAlias, cast

from pixconnect.features.statements.rules import Language, StatementLine


class Node(Protocol):
    """The part of lxml's elements that we use."""

    text: str | None

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


@cache
def _load() -> _Library:
    # Only a statement in XML needs its megabyte.
    import lxml.etree  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  ours are above

    return cast(_Library, lxml.etree)  # pyright: ignore[reportUnknownMemberType]


def open_document(output: Output) -> AbstractContextManager[XmlDocument]:
    return _load().xmlfile(output, encoding="UTF-8")


Tree: TypeAlias = "Mapping[str, Content]"
Content: TypeAlias = "str | tuple[str, Mapping[str, str]] | list[Tree] | Tree | None"
"""An element: its text, also with attributes, or the elements in it. A list repeats it, and ``None`` leaves it out."""


async def write_lines(
    document: XmlDocument,
    output: Output,
    parts: AsyncIterable[Sequence[StatementLine]],
    show_line: Callable[[StatementLine, Language], Tree],
    language: Language,
) -> AsyncIterator[bytes]:
    """Write the lines of a statement, and yield each part when it is written."""
    async for lines in parts:
        group = _load().Element("group")
        for line in lines:
            _append(group, show_line(line, language))
        document.write(*group)
        # Sent in parts: the statement may be longer than memory.
        document.flush()
        yield output.take()


def make(tree: Tree) -> Iterator[Node]:
    """Make elements.

    Example:
        >>> output = Output()
        >>> with open_document(output) as document, document.element("a"):
        ...     document.write(*make({"b": [{"c": "d"}, {"e": None}], "f": ("1", {"g": "h"})}))
        >>> output.take()
        b'<a><b><c>d</c></b><b/><f g="h">1</f></a>'
    """
    group = _load().Element("group")
    _append(group, tree)
    return iter(group)


def _append(parent: Node, tree: Tree) -> None:
    for tag, content in tree.items():
        for each in content if isinstance(content, list) else (content,):
            if each is None:
                continue
            element = _load().SubElement(parent, tag)
            if isinstance(each, str):
                element.text = each
            elif isinstance(each, tuple):
                element.text, attributes = each
                for name, value in attributes.items():
                    element.set(name, value)
            else:
                _append(element, each)


def clean(text: str, length_max: int) -> str:
    """Clean another system's text: cut, with U+FFFD for each character that XML 1.0 cannot represent."""
    return _FOREIGN.sub("\ufffd", text[:length_max])


def format_xml_instant(instant: datetime) -> str:
    """Write an instant of any year as ``xs:dateTime``."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
