"""One error tree, one table to HTTP: they agree."""

from collections.abc import Iterator

from pixconnect.doors.api.envelope import list_statuses
from pixconnect.platform.base import errors


def kinds(kind: type[errors.PixConnectError] = errors.PixConnectError) -> Iterator[type[errors.PixConnectError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


def test_every_error_with_a_code_has_one_status_and_every_status_an_error() -> None:
    codes = [kind.code for kind in kinds() if "code" in vars(kind)]
    assert sorted(codes) == sorted(list_statuses())
    assert len(set(codes)) == len(codes)


def test_every_error_that_can_be_raised_has_a_code() -> None:
    for kind in kinds():
        assert hasattr(kind, "code") or kind.__subclasses__(), f"{kind.__name__} has no code"
