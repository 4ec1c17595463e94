"""What JSON is judged by before and beside its reading.

Members that stand twice in one object: of two amounts one reader takes the first, and another one the last. And how much is in
it: four mebibytes of empty lists take half a second to read, and as many octets of charges a thirtieth of that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from msgspec import inspect

from pixconnect.platform.base import errors

_NAME_LENGTH_MAX: Final = 64


class RepeatedMember(errors.BadRequest):
    """A member stands twice in one object."""

    def __init__(self, name: str) -> None:
        self.name = name[:_NAME_LENGTH_MAX].encode("utf-8", "replace").decode()
        super().__init__(f"{self.name}: stands twice in the body")


def count_elements(body: bytes) -> int:
    """How many members and elements there are at most, which costs a hundredth of reading them; commas in texts count too."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


@cache
def list_names(record: type[object]) -> tuple[bytes, ...]:
    """The members that a record describes, those of records in it too, as they stand in JSON."""
    return tuple(dict.fromkeys(f'"{name}"'.encode() for name in _walk(inspect.type_info(record))))


def refuse_repeated(body: bytes, names: Sequence[bytes] | None) -> None:
    """Raise ``RepeatedMember`` where a member stands twice in an object of this JSON, ``BadRequest`` where it is none.

    Args:
        names: Those that matter, as ``list_names`` answers them, and any if ``None``. To find each once costs next to nothing.
    """
    if names is not None:
        count = body.count
        for name in names:
            if count(name) > 1:
                break
        else:
            # An escape may hide a letter of a name.
            if b"\\u" not in body:
                return
    # Perhaps in two objects: only such a body is read again. A faster reader passes over members that this one cannot read.
    try:
        json.loads(body, parse_int=str, object_pairs_hook=take_members)
    except (ValueError, RecursionError):
        raise errors.BadRequest("body: must be valid JSON, and not be nested too deep") from None


def take_members(members: Sequence[tuple[str, object]]) -> dict[str, object]:
    """The members of one object, for ``json.loads``."""
    found = dict(members)
    if len(found) < len(members):
        ((name, _),) = Counter(name for name, _ in members).most_common(1)
        raise RepeatedMember(name)
    return found


def _walk(kind: inspect.Type) -> Iterator[str]:
    match kind:
        case inspect.Metadata():
            yield from _walk(kind.type)
        case inspect.UnionType():
            for one in kind.types:
                yield from _walk(one)
        case inspect.ListType():
            yield from _walk(kind.item_type)
        case inspect.StructType():
            for field in kind.fields:
                yield field.encode_name
                yield from _walk(field.type)
        case _:
            pass
