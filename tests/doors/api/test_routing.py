"""From a path and a method to an operation."""

import pytest

from pixconnect.assembly.operations import list_operations
from pixconnect.doors.api.routing import Router
from pixconnect.platform.base import errors

ROUTER = Router([("GET", "/a/{id}", "read"), ("GET", "/a/list", "list"), ("POST", "/a", "create"), ("GET", "/a/{id}/b", "b")])


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", b"/a/list", ("list", ())), ("GET", b"/a/%6cist", ("read", (b"%6cist",))),
        ("HEAD", b"/a/list", ("list", ())), ("GET", b"/a/x", ("read", (b"x",))),
        ("GET", b"/a/x%2Fy", ("read", (b"x%2Fy",))), ("GET", b"/a/%", ("read", (b"%",))),
        ("GET", b"/a/x/b", ("b", (b"x",))), ("POST", b"/a", ("create", ())),
    ],
)  # fmt: skip
def test_a_fixed_value_wins_over_a_parameter(method: str, path: bytes, found: tuple[str, tuple[bytes, ...]]) -> None:
    assert ROUTER.find(method, path) == found


@pytest.mark.parametrize(
    "path", [b"", b"/", b"*", b"/a/", b"/a//b", b"/a/x/", b"/a/x/c", b"/b", b"a", b"/a/list/b", b"/%61/x", b"/a/x/%62"]
)
def test_anything_else_is_not_found(path: bytes) -> None:
    with pytest.raises(errors.NotFound, match=r"/openapi\.json"):
        ROUTER.find("GET", path)


def test_a_caller_is_told_how_a_path_goes_on_and_where_the_list_is() -> None:
    with pytest.raises(errors.NotFound, match="some go on with /b"):
        Router([("GET", "/a/{id}/b", "b")]).find("GET", b"/a/1")
    with pytest.raises(errors.MethodNotAllowed, match="takes POST, not GET; /a/list takes GET"):
        ROUTER.find("GET", b"/a")


def test_a_route_may_take_the_rest_of_the_path_with_its_slashes() -> None:
    router = Router([("GET", "/docs", "entry"), ("GET", "/docs/{page*}", "file"), ("GET", "/docs/own/{id}", "own")])
    assert router.find("GET", b"/docs") == ("entry", ())
    assert router.find("HEAD", b"/docs/") == ("file", (b"",))
    assert router.find("GET", b"/docs/a//b%2Fc/") == ("file", (b"a//b%2Fc/",))
    assert router.find("GET", b"/docs/own/1") == ("own", (b"1",))
    for method, path, error in (
        ("POST", b"/docs/a", errors.MethodNotAllowed),
        ("GET", b"/docs/" + b"a" * 4096, errors.NotFound),
    ):
        with pytest.raises(error):
            router.find(method, path)


@pytest.mark.parametrize("segment", ["efi+homologation", "efi%2Bhomologation", "efi%2bhomologation"])
def test_a_plus_is_found_as_libraries_send_it(segment: str) -> None:
    router = Router([("GET", "/faces/efi+homologation/{id}", "found"), ("GET", "/faces/efi+homologation", "above")])
    assert router.find("GET", f"/faces/{segment}/x+y".encode()) == ("found", (b"x+y",))
    assert router.find("GET", f"/faces/{segment}".encode()) == ("above", ())


def test_another_method_names_those_that_the_path_takes() -> None:
    with pytest.raises(errors.MethodNotAllowed) as caught:
        ROUTER.find("DELETE", b"/a/x")
    assert caught.value.allowed == ("GET", "HEAD")


def test_every_operation_is_found_at_its_path() -> None:
    rows = list_operations(is_sandbox=True)
    router = Router((row.method, row.path, row.id) for row in rows)
    for row in rows:
        path = row.path.replace("{" + row.parameter.name + "}", "5")
        assert router.find(row.method, path.encode())[0] == row.id
