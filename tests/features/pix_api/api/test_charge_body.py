"""Bodies of charges: every described member is read."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec import Struct, inspect

from pixconnect.features.pix_api.api import charge_body
from pixconnect.features.pix_api.api.charge_records import CobRevisada, CobSolicitada
from pixconnect.kernel.rules.location import AT_ONCE
from pixconnect.platform.base.errors import Violated


def list_members(record: type[Struct]) -> Iterator[list[str]]:
    described: Any = inspect.type_info(record)
    for field in described.fields:
        yield [field.encode_name]
        kinds = getattr(field.type, "types", (field.type,))
        inner = getattr(kinds[0], "item_type", kinds[0])
        if isinstance(inner, inspect.StructType):
            number = ["0"] if inner is not kinds[0] else []
            yield from ([field.encode_name, *number, *path] for path in list_members(inner.cls))


def make_body(path: list[str]) -> Any:
    # A reserved name.
    if not path:
        return -5
    return [make_body(path[1:])] if path[0] == "0" else {path[0]: make_body(path[1:])}


@pytest.mark.parametrize(
    ("read", "record"), [(charge_body.read_put, CobSolicitada), (partial(charge_body.read_patch, AT_ONCE), CobRevisada)]
)
def test_every_member_that_is_described_is_read(read: Callable[[Any], object], record: type[Struct]) -> None:
    paths = list(list_members(record))
    assert ["infoAdicionais", "0", "valor"] in paths
    for path in paths:
        with pytest.raises(Violated) as caught:
            read(make_body(path))
        name = ".".join(["cob", *path]).replace(".0", "[0]")
        assert (name, "-5") in [(row.property, row.value) for row in caught.value.rows]
