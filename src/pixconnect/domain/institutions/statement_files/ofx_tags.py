"""The tags of an OFX file, and the text after each. What is no tag is text: banks copy a payer's ``<3``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pixconnect.domain.institutions.statement_files.statement_file import ITEMS_MAX, InvalidStatement

_TAG: Final = re.compile(
    r"<(?P<end>/?)(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?(?P<name>[A-Za-z][A-Za-z0-9._-]{0,63})"
    r"""(?:\s++[A-Za-z_][A-Za-z0-9_:.-]*+\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'))*+\s*+(?P<empty>/?)>"""
)
_START: Final = re.compile(r"<(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?OFX[\s>/]", re.IGNORECASE)
_ENTITY: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos|nbsp)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));")
_ENTITIES: Final = dict(amp="&", lt="<", gt=">", quot='"', apos="'", nbsp=" ")
_HEADER_LENGTH_MAX: Final = 2048
_MARKS_MAX: Final = 2 * ITEMS_MAX


class Tag(NamedTuple):
    name: str
    """In capitals, without a namespace."""
    is_end: bool
    is_empty: bool
    """Written as ``<NAME/>``."""
    written: str
    content: str
    """The text that follows it, with its entities."""
    line: int


def list_tags(content: bytes) -> Iterator[Tag]:
    """The tags from ``<OFX>`` on.

    Raises:
        InvalidStatement: There is none, or a document type is declared.
    """
    text = _decode(content).replace("\r\n", "\n").replace("\r", "\n")
    start = _START.search(text)
    declared = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE).search(text, 0, start.start() if start else len(text))
    if declared is not None:
        line = text.count("\n", 0, declared.start()) + 1
        raise InvalidStatement("it declares a document type, which no statement needs", line)
    if start is None:
        raise InvalidStatement("there is no <OFX> in it")
    is_xml = re.search(r"<\?(xml|OFX)\b", text[: start.start()], re.IGNORECASE) is not None
    return _list_tags(_blank_out(text, is_xml=is_xml), start.start())


def _list_tags(text: str, start: int) -> Iterator[Tag]:
    line, counted_to = 1, 0
    last: re.Match[str] | None = None
    for found in _TAG.finditer(text, start):
        if last is not None:
            yield _make_tag(last, text[last.end() : found.start()], line)
        line += text.count("\n", counted_to, found.start())
        counted_to, last = found.start(), found
    if last is not None:
        yield _make_tag(last, text[last.end() :], line)


def _make_tag(found: re.Match[str], content: str, line: int) -> Tag:
    return Tag(found["name"].upper(), found["end"] == "/", found["empty"] == "/", found[0], content, line)


def _decode(content: bytes) -> str:
    """Texts as the header says; what is right UTF-8 beyond ASCII is that, whatever it says.

    Amounts, days and ids are ASCII, so that a header that is wrong changes names and texts alone.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        header = content[:_HEADER_LENGTH_MAX].decode("ascii", "replace").upper()
        # Windows-1252 is what CHARSET:1252 means, and what those write who say UTF-8 and do not.
        codec = "iso-8859-1" if re.search(r"8859-1\b", header) else "cp1252"
        return content.decode(codec, "replace")


def _blank_out(text: str, *, is_xml: bool) -> str:
    """The text without comments, and with escaped CDATA; each line stays where it is.

    SGML of banks is not escaped: there, marks that a payer may have written hide no tag, and are text.

    Example:
        >>> _blank_out("<A><![CDATA[1 < 2]]></A><!-- no -->", is_xml=True)
        '<A>1 &lt; 2</A>'
    """
    parts: list[str] = []
    position, ends, tag_at = 0, dict[str, int](), 0
    while (start := text.find("<!", position)) >= 0:
        if len(parts) > _MARKS_MAX:
            raise InvalidStatement(f"there are more than {_MARKS_MAX // 2} <! in it", text.count("\n", 0, start) + 1)
        parts.append(text[position:start])
        mark, end_mark = ("<!--", "-->") if text.startswith("<!--", start) else ("<![CDATA[", "]]>")
        inside_at = start + len(mark)
        end = -1
        if text.startswith(mark, start):
            # What was found is looked for again only once it is behind, so that each part of the file is looked at once.
            if 0 <= ends.get(end_mark, 0) < inside_at:
                ends[end_mark] = text.find(end_mark, inside_at)
            if tag_at < inside_at:
                tag = _TAG.search(text, inside_at)
                tag_at = len(text) if tag is None else tag.start()
            end = ends[end_mark] if is_xml or ends[end_mark] < tag_at else -1
        if end < 0:
            parts.append("&lt;!")
            position = start + 2
            continue
        inside = text[inside_at:end]
        parts.append("\n" * inside.count("\n") if mark == "<!--" else inside.replace("&", "&amp;").replace("<", "&lt;"))
        position = end + len(end_mark)
    return "".join((*parts, text[position:]))


def unescape(text: str) -> str:
    def _replace(found: re.Match[str]) -> str:
        if found[1]:
            return _ENTITIES[found[1]]
        number = int(found[2]) if found[2] else int(found[3], 16)
        return chr(number) if number <= 0x10FFFF else found[0]

    return _ENTITY.sub(_replace, text)
