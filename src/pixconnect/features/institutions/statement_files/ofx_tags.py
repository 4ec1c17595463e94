"""The tags of an OFX file, and the text after each. Anything else is text: banks copy a payer's ``<3``, and tags too.

Banks do not escape these texts. The bank's style before the first of them, which no payer has written, decides where each ends
(``Layout``). So if each line of money has a line of the file, a payer's text cannot add a line of money, a balance or a field,
unless the bank copies a payer's line break that is like its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from pixconnect.features.institutions.statement_files.ofx_text import decode
from pixconnect.features.institutions.statement_files.statement_file import ITEMS_MAX, InvalidStatement

# Elements with children, and their parents. Everything else is a tag with a text, whose end may be missing.
PARENTS: Final = dict(
    OFX="",
    BANKMSGSRSV1="OFX",
    STMTTRNRS="BANKMSGSRSV1",
    STMTRS="STMTTRNRS",
    BANKACCTFROM="STMTRS",
    BANKTRANLIST="STMTRS",
    STMTTRN="BANKTRANLIST",
    BANKACCTTO="STMTTRN",
    CCACCTTO="STMTTRN",
    PAYEE="STMTTRN",
    CURRENCY="STMTTRN",
    ORIGCURRENCY="STMTTRN",
    LEDGERBAL="STMTRS",
    AVAILBAL="STMTRS",
    BALLIST="STMTRS",
    BAL="BALLIST",
    BANKTRANLISTP="STMTRS",
    STMTTRNP="BANKTRANLISTP",
)
FREE_TEXTS: Final = frozenset(("NAME", "EXTDNAME", "MEMO"))
_NEEDED: Final = frozenset(("TRNTYPE", "DTPOSTED", "TRNAMT", "FITID"))
_FIELDS: Final = FREE_TEXTS | _NEEDED | {
    "DTUSER", "DTAVAIL", "CORRECTFITID", "CORRECTACTION", "SRVRTID", "CHECKNUM", "REFNUM", "SIC", "PAYEEID",
    "INV401KSOURCE", "IMAGEDATA", "MKTGINFO",
}  # fmt: skip
_TAG: Final = re.compile(
    r"<(?P<end>/?)(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?(?P<name>[A-Za-z][A-Za-z0-9._-]{0,63})"
    r"""(?:\s++[A-Za-z_][A-Za-z0-9_:.-]*+\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'))*+\s*+(?P<empty>/?)>"""
)
_TEXT_END: Final = re.compile(r"</(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?(?P<name>NAME|EXTDNAME|MEMO)\s*+>", re.IGNORECASE)
_ENDING: Final = re.compile(r"[ \t]*+(?:\n|\Z)")
_ENDING_FIELD: Final = re.compile(r"[ \t]*+(?:</(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?STMTTRN>[ \t]*+)?(?:\n|\Z)", re.IGNORECASE)
_BLANKS: Final = re.compile(r"\s*+")
_LINE_END: Final = re.compile(r"(?:\r\n|\r|\n)(?=[ \t]*+<)")
_LIST: Final = re.compile(r"<(?P<end>/?)(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?BANKTRANLIST\s*+>", re.IGNORECASE)
_HEAD: Final = re.compile(
    r"<(?:(?P<list>BANKTRANLIST)|STMTTRN)>(?(list)|\s*+<(?:TRNTYPE|DTPOSTED|TRNAMT|FITID)>)", re.IGNORECASE
)
_STATEMENT: Final = re.compile(r"<(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?STMTRS[\s>]", re.IGNORECASE)
# What may follow the end of a text in a line of the file.
_FOLLOWING: Final = re.compile(
    r"[ \t]*+(?:\Z|</(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?STMTTRN>[ \t]*+\Z"
    r"|<(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?(?:NAME|EXTDNAME|MEMO|CHECKNUM|REFNUM)>)",
    re.IGNORECASE,
)
_START: Final = re.compile(r"<(?:[A-Za-z][A-Za-z0-9_-]{0,63}:)?OFX[\s>/]", re.IGNORECASE)
_BARE: Final = re.compile("&(?!(?:[A-Za-z]{2,6}|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)")
_CURRENCY: Final = frozenset(("CURSYM", "CURRATE"))
_HEAD_MAX: Final = 2 * len(_FIELDS)  # tags before the first free text of a line of money
_MARKS_MAX: Final = 2 * ITEMS_MAX


class Tag(NamedTuple):
    name: str  # in capitals, without a namespace
    is_end: bool
    is_empty: bool  # written as ``<NAME/>``
    content: str  # the text that follows it, with its entities and, in a free text, text that resembles tags
    line: int


class Layout(NamedTuple):
    """How a bank writes its lines of money."""

    own_lines: bool  # each of their fields begins a line of the file: a free text ends with its line
    in_lines: bool  # each line of money begins one: a free text ends with it too, but further fields may share its line
    closed: bool  # their fields have end tags: a free text ends with the last of its end tags in its line

    needed: frozenset[str]  # the required fields before each line's first free text

    escaped: bool  # it is XML, and by the standard its texts contain no tags
    is_mixed: bool  # its lines end in more than one way: a payer may have written some of the ends

    @property
    def is_certain(self) -> bool:
        """Whether a payer's text cannot be mistaken for a line of money."""
        return self.in_lines or self.escaped

    @property
    def doubt(self) -> str | None:
        """Why a payer's text may pass for a line of money."""
        if not self.is_certain:
            return "a line of money begins no line of the file"
        return "lines of the file end in two ways" if self.is_mixed and not self.escaped else None


def list_tags(content: bytes) -> tuple[Layout, Iterator[Tag]]:
    """Return how the file is written, and its tags from ``<OFX>`` on.

    Raises:
        InvalidStatement: There is none, or a document type is declared.
    """
    decoded = decode(content)
    text = decoded.replace("\r\n", "\n").replace("\r", "\n")
    start = _START.search(text)
    declared = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE).search(text, 0, start.start() if start else len(text))
    if declared is not None:
        line = text.count("\n", 0, declared.start()) + 1
        raise InvalidStatement("it declares a document type, which no statement needs", line)
    if start is None:
        raise InvalidStatement("there is no <OFX> in it")
    is_xml = re.search(r"<\?(xml|OFX)\b", text[: start.start()], re.IGNORECASE) is not None
    text = _blank_out(text, is_xml=is_xml)
    escaped = is_xml and _BARE.search(text) is None
    layout = _find_layout(text, start.start(), escaped=escaped, is_mixed=_is_mixed(decoded))
    return layout, _list_tags(text, start.start(), layout)


def _list_tags(text: str, start: int, layout: Layout) -> Iterator[Tag]:
    line, counted_to, texts, end = 1, 0, _FreeTexts(text, layout), 0
    last: re.Match[str] | None = None
    for found in _TAG.finditer(text, start):
        gap, end = text[end : found.start()], found.end()
        if texts.has(found, begins_line=_begins_line(gap)):
            continue
        if last is not None:
            yield _make_tag(last, text[last.end() : found.start()], line)
        line += text.count("\n", counted_to, found.start())
        counted_to, last = found.start(), found
    if last is not None:
        yield _make_tag(last, text[last.end() :], line)


def _make_tag(found: re.Match[str], content: str, line: int) -> Tag:
    return Tag(found["name"].upper(), found["end"] == "/", found["empty"] == "/", content, line)


def _skip_blanks(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return position if found is None else found.end()


def _find_list_ends(text: str) -> set[int]:
    """Find the ends of lists: of several ends of one statement the last is the bank's."""
    lists = [*_LIST.finditer(text)]
    ends = set[int]()
    for found, after in zip_longest(lists, lists[1:]):
        is_last = after is None or (not after["end"] and _STATEMENT.search(text, found.end(), after.start()))
        if found["end"] and is_last:
            ends.add(found.start())
    return ends


def _begins_line(gap: str) -> bool:
    """Whether a tag begins a line, by the text between it and the one before it."""
    _, mark, before = gap.rpartition("\n")
    return bool(mark) and not before.strip()


def _is_mixed(decoded: str) -> bool:
    """Whether tags of statements stand behind different line ends."""
    begin = _START.search(decoded)
    return begin is not None and len({found[0] for found in _LINE_END.finditer(decoded, begin.end())}) > 1


def _find_layout(text: str, start: int, *, escaped: bool, is_mixed: bool) -> Layout:
    """Find the layout by the lines of money up to the first free text."""
    begins, in_lines, closed, is_inside, end, stood = list[bool](), False, False, False, start, set[str]()
    for found in _TAG.finditer(text, start):
        name, is_first, end = found["name"].upper(), _begins_line(text[end : found.start()]), found.end()
        if name == "STMTTRN":
            in_lines = is_first if not is_inside else in_lines
            is_inside = True
        elif is_inside and found["end"]:
            closed |= name in _NEEDED
        elif is_inside:
            begins.append(is_first)
            stood.add(name)
        if is_inside and name in FREE_TEXTS:
            break
    own_lines = bool(begins) and all(begins)
    return Layout(
        own_lines=own_lines,
        in_lines=own_lines or (in_lines and _are_in_lines(text, start)),
        closed=closed,
        needed=frozenset(stood & _NEEDED),
        escaped=escaped,
        is_mixed=is_mixed,
    )


def _are_in_lines(text: str, start: int) -> bool:
    """Whether most lines of money behind the first of their list begin a line: the first does so in many a list of one line."""
    begin_count, after_list, before_at = 0, False, start
    for found in _HEAD.finditer(text, start):
        if not (found["list"] or after_list):
            line_at = text.rfind("\n", before_at, found.start()) + 1
            begin_count += 1 if line_at and not text[line_at : found.start()].strip() else -1
        after_list, before_at = bool(found["list"]), found.end()
    return begin_count >= 0


class _FreeTexts:
    """Tracks the free text being read, and its parts."""

    def __init__(self, text: str, layout: Layout) -> None:
        self._text, self._layout = text, layout
        # If no line ends a text, most of these texts must have an end tag.
        self._closed = {name for name in FREE_TEXTS if layout.closed or 2 * text.count(f"</{name}>") > text.count(f"<{name}>")}
        self._name: str | None = None
        self._stood: set[str] = set()  # fields of the line of money so far: none occurs twice
        self._is_inside = False
        self._list_ends = set[int]() if layout.is_certain else _find_list_ends(text)
        lines_count = text.count("<STMTTRN>")
        self._usual = {name for name in FREE_TEXTS if text.count(f"<{name}>") * 2 > lines_count}
        self._line_end = -1
        self._last_ends = dict[str, int]()  # where the last end tag of each free text begins in the last checked line

    def has(self, found: re.Match[str], *, begins_line: bool) -> bool:
        """Whether an apparent tag is a part of the text being read."""
        name, is_end = found["name"].upper(), bool(found["end"])
        # If no line of the file ends a text, the text after a tag shows whether the tag is the bank's.
        is_doubtful = not self._layout.is_certain and not FREE_TEXTS.isdisjoint(self._stood)
        if is_doubtful and not self._is_banks(found, name):
            return True
        if self._name is not None and not self._is_after(found, name, begins_line=begins_line):
            return True
        self._name = None
        if name == "STMTTRN":
            if self._is_inside and self._layout.in_lines and not is_end and not begins_line:
                line = self._text.count("\n", 0, found.start()) + 1
                raise InvalidStatement("STMTTRN: stands behind other elements, and those before it begin lines", line)
            self._is_inside, self._stood = not is_end or self._is_inside, set()
        elif name in PARENTS and PARENTS[name] != "STMTTRN":
            self._is_inside, self._stood = False, set()
        elif self._is_inside and not is_end and not found["empty"]:
            self._stood.add(name)
            self._name = name if name in FREE_TEXTS else None
        return False

    def _is_banks(self, found: re.Match[str], name: str) -> bool:
        """Whether a tag behind a free text fits into a line of money, or between two of them, at its position."""
        is_end = bool(found["end"])
        if name == "BANKTRANLIST":
            return found.start() in self._list_ends
        if name == "STMTTRN":
            return self._ends_line_of_money(found) if is_end else self._begins_line_of_money(found)
        if name in PARENTS and PARENTS[name] != "STMTTRN":
            return not self._list_ends
        if is_end:
            return name != self._name or self._is_followed(found)
        if name in FREE_TEXTS:
            return name in self._usual - self._stood
        # In the standard's order a correction precedes the texts.
        return name in _CURRENCY or name in PARENTS or name in _FIELDS - self._stood - {"CORRECTFITID"}

    def _is_followed(self, found: re.Match[str]) -> bool:
        """Whether the bank's next tag directly follows the end of a text."""
        following = _TAG.match(self._text, _skip_blanks(self._text, found.end()))
        if following is None:
            return False
        name = following["name"].upper()
        # Of several ends the last is the bank's.
        return not (following["end"] and name == self._name) and self._is_banks(following, name)

    def _ends_line_of_money(self, found: re.Match[str]) -> bool:
        """Whether a line's end precedes another line, the end of the list, or the end of the file."""
        position = _skip_blanks(self._text, found.end())
        if position == len(self._text) or position in self._list_ends:
            return True
        following = _TAG.match(self._text, position)
        if following is None:
            return False
        name = following["name"].upper()
        if name == "STMTTRN":
            return not following["end"] and self._begins_line_of_money(following)
        return not self._list_ends and name in PARENTS and PARENTS[name] != "STMTTRN"

    def _begins_line_of_money(self, found: re.Match[str]) -> bool:
        """Whether the fields behind a line's beginning are the required ones, up to its first free text."""
        seen, position = set[str](), found.end()
        for _ in range(_HEAD_MAX):
            field = _TAG.search(self._text, position)
            name = "" if field is None else field["name"].upper()
            if field is None or name not in _FIELDS - FREE_TEXTS:
                break
            seen.add(name)
            position = field.end()
        return self._layout.needed <= seen

    def _is_after(self, found: re.Match[str], name: str, *, begins_line: bool) -> bool:
        """Whether a tag follows the text that is being read."""
        layout, is_end = self._layout, bool(found["end"])
        is_own_end = is_end and name == self._name
        if not layout.in_lines:
            is_field = name in PARENTS or (name in _FIELDS and (is_end or name in FREE_TEXTS or name not in self._stood))
            # Elements around lines of money have ended their texts.
            is_around = name in PARENTS and PARENTS[name] != "STMTTRN"
            return is_own_end or is_around if self._name in self._closed else is_field
        if begins_line:
            return True
        if layout.closed and is_own_end:
            return found.start() == self._find_last_end(found.start(), name)
        if layout.own_lines or layout.closed:
            return layout.closed and name == "STMTTRN" and is_end and self._ends_line(found)
        is_last = is_end and name in (self._name, "STMTTRN") and self._ends_line(found)
        return is_last or (not is_end and (name == "MEMO" or (name in _NEEDED and name not in self._stood)))

    def _ends_line(self, found: re.Match[str]) -> bool:
        ending = _ENDING if found["name"].upper() == "STMTTRN" else _ENDING_FIELD
        return ending.match(self._text, found.end()) is not None

    def _find_last_end(self, position: int, name: str) -> int:
        if position > self._line_end:
            self._line_end = self._text.find("\n", position) % (len(self._text) + 1)
            line = self._text[position : self._line_end]
            # A text followed by another one ends before that: behind it a payer may have written the same end.
            ends = [(found["name"].upper(), found) for found in _TEXT_END.finditer(line)]
            self._last_ends = {name: position + found.start() for name, found in ends}
            self._last_ends |= {name: position + found.start() for name, found in ends if _FOLLOWING.match(line, found.end())}
        return self._last_ends.get(name, position)


def _blank_out(text: str, *, is_xml: bool) -> str:
    """Blank out comments and escape CDATA; each line keeps its position.

    SGML of banks is not escaped: marks that a payer may have written hide no tag, and are text.

    Example:
        >>> _blank_out("<A><![CDATA[1 < 2]]></A><!-- no -->", is_xml=True)
        '<A>1 &lt; 2</A>'
    """
    parts: list[str] = []
    position, ends, tag_at, line_at = 0, dict[str, int](), 0, 0
    while (start := text.find("<!", position)) >= 0:
        if len(parts) > _MARKS_MAX:
            raise InvalidStatement(f"there are more than {_MARKS_MAX // 2} <! in it", text.count("\n", 0, start) + 1)
        parts.append(text[position:start])
        mark, end_mark = ("<!--", "-->") if text.startswith("<!--", start) else ("<![CDATA[", "]]>")
        inside_at = start + len(mark)
        end = -1
        if text.startswith(mark, start):
            # A found mark is searched again only once it is passed, so that each part of the file is read once.
            if 0 <= ends.get(end_mark, 0) < inside_at:
                ends[end_mark] = text.find(end_mark, inside_at)
            if tag_at < inside_at:
                tag = _TAG.search(text, inside_at)
                tag_at = len(text) if tag is None else tag.start()
            if line_at < inside_at:
                line_at = text.find("\n", inside_at) % (len(text) + 1)
            # In the middle of a line a payer may have written it: then it hides nothing beyond its end.
            is_whole = is_xml and (ends[end_mark] < line_at or _begins_line(text[max(start - 200, 0) : start]))
            end = ends[end_mark] if is_whole or ends[end_mark] < tag_at else -1
        if end < 0:
            parts.append("&lt;!")
            position = start + 2
            continue
        inside = text[inside_at:end]
        parts.append("\n" * inside.count("\n") if mark == "<!--" else inside.replace("&", "&amp;").replace("<", "&lt;"))
        position = end + len(end_mark)
    return "".join((*parts, text[position:]))
