"""Scopes, and the client that a failed token request counts for."""

import re
from pathlib import Path

import pytest

import pixconnect
from pixconnect.kernel.rules import access
from pixconnect.platform.base import errors


def test_a_bound_token_is_good_with_its_certificate_alone_and_a_free_one_with_any() -> None:
    free = make_caller("charge.read")
    for shown in (None, "shown"):
        access.check_certificate(free, shown)
    bound = access.Caller(client_id="client", holder_id=1, scopes=frozenset(), certificate="own")
    access.check_certificate(bound, "own")
    for shown in (None, "", "other"):
        with pytest.raises(errors.Unauthorized):
            access.check_certificate(bound, shown)


def make_caller(*scopes: str) -> access.Caller:
    return access.Caller(client_id="client", holder_id=1, scopes=frozenset(scopes))


def test_the_scopes_of_the_pix_api_stand_behind_our_own() -> None:
    assert len(set(access.SCOPES)) == len(access.SCOPES)
    assert access.SCOPES[: len(access.OWN_SCOPES)] == access.OWN_SCOPES
    assert not {scope for scope in access.OWN_SCOPES if scope.startswith(("cob", "pix", "lote", "payload"))}


def test_a_caller_with_the_scope_passes() -> None:
    access.authorize(make_caller("charge.read", "charge.write"), "charge.write")


@pytest.mark.parametrize("scopes", [(), ("charge.read",), ("charge",)])
def test_a_caller_without_the_scope_is_told_which_one(scopes: tuple[str, ...]) -> None:
    with pytest.raises(errors.Forbidden, match=r"charge\.write"):
        access.authorize(make_caller(*scopes), "charge.write")


def test_scopes_are_kept_once_and_in_order() -> None:
    assert access.parse_scopes(["webhook.write", "charge.read", "charge.read"]) == ("charge.read", "webhook.write")


@pytest.mark.parametrize("scopes", [[], ["charge"], ["charge.read", "CHARGE.READ"], ["charge.read charge.write"]])
def test_a_client_needs_scopes_that_exist(scopes: list[str]) -> None:
    with pytest.raises(errors.BadRequest, match=r"^scope: "):
        access.parse_scopes(scopes)


def test_a_kind_is_seen_by_the_scope_that_declares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(access.READ_SCOPES, "charge", "held.read")
    viewer = access.Viewer(holder_id=1, scopes=frozenset({"charge.read"}))
    assert not viewer.may_see("charge")
    with pytest.raises(errors.Forbidden, match=r"held\.read"):
        viewer.require_sight("charge")
    sources = Path(pixconnect.__path__[0]).rglob("*.py")
    assert [path for path in sources if re.search(r'(may|require)\("[a-z]+\.read"', path.read_text("utf-8"))] == []
