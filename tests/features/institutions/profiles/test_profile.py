"""Profiles are data: everything that they name must exist."""

import pytest

from pixconnect.features.institutions.profiles import profile as profiles
from pixconnect.features.pix_api.api.operations import SPOKEN
from pixconnect.kernel.rules.access import SCOPES
from pixconnect.kernel.rules.event import EVENT_NAMES

GENERAL = {
    "BAD_REQUEST", "UNAUTHORIZED", "FORBIDDEN", "NOT_FOUND", "METHOD_NOT_ALLOWED", "PAYLOAD_TOO_LARGE",
    "RATE_LIMITED", "SERVICE_UNAVAILABLE", "OUTCOME_UNKNOWN", "INTERNAL_ERROR",
}  # fmt: skip


@pytest.mark.parametrize("name", profiles.NAMES)
def test_what_a_profile_names_is_there(name: str) -> None:
    profile = profiles.read_profile(name)
    assert profile.name == name
    assert set(profile.scopes.values()) <= set(SCOPES)
    assert set(profile.standard.operations) <= {row.id for row in SPOKEN}
    assert {traits.errors for traits in profile.standard.operations.values()} <= set(profile.errors)
    assert set(profile.webhook.event_types) <= set(EVENT_NAMES)
    assert set(profile.errors["general"].codes) >= GENERAL
    for group in profile.errors.values():
        assert {group.form, *(traits.form or group.form for traits in group.codes.values())} <= set(profile.forms)
        assert all(profile.find_refusal("general", code) or code in group.codes for code in group.properties.values())
    assert profile.webhook.sent_body == "request" or "notice" in profile.choices
    for choice in profile.choices.values():
        assert choice.about.endswith(".")
        assert len(choice.answers) > 1


def test_listeners_have_the_usual_port_unless_one_is_named() -> None:
    text = "efi, efi+homologation:0"
    assert profiles.parse_listeners(text) == (
        profiles.FaceListener(face="efi", port=profiles.read_profile("efi").ports.production),
        profiles.FaceListener(face="efi+homologation", port=0),
    )
    assert profiles.parse_listeners("") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nobank", "there is no face 'nobank'"), ("efi+test", "there is no face"), ("efi:", "NAME:PORT"),
        ("efi:65536", "NAME:PORT"), ("efi:-1", "NAME:PORT"), ("efi:" + "9" * 5000, "NAME:PORT"),
        ("efi:1,efi:2", "twice"),
    ],
)  # fmt: skip
def test_a_listener_that_cannot_be_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        profiles.parse_listeners(text)


def test_answers_are_of_a_choice_that_there_is() -> None:
    assert profiles.parse_answers("efi.above_limit=invalid", 1) == {"efi.above_limit": "invalid"}
    assert profiles.parse_answers("", 1) == {}
    for text in ("efi.above_limit", "efi.above_limit=perhaps", "efi.nothing=1", "nobank.above_limit=invalid", "efi"):
        with pytest.raises(ValueError, match=r"efi|nobank"):
            profiles.parse_answers(text, 1)


def test_answers_are_drawn_by_the_seed_but_for_those_that_are_named() -> None:
    choices = {
        f"{name}.{choice}": found.answers
        for name in profiles.NAMES
        for choice, found in profiles.read_profile(name).choices.items()
    }
    drawn = [profiles.parse_answers("drawn, efi.above_limit=invalid", seed) for seed in range(40)]
    assert drawn[7] == profiles.parse_answers("efi.above_limit=invalid,drawn", 7)
    assert {each["efi.above_limit"] for each in drawn} == {"invalid"}
    for name, answers in choices.items():
        if name != "efi.above_limit":
            assert {each[name] for each in drawn} == set(answers)
    # Each has its own list, so that not all change together.
    assert len({tuple(sorted(each.items())) for each in drawn}) > 20


def test_members_are_left_out_of_each_item_and_the_rest_stays() -> None:
    record = {"pix": [{"txid": "a", "devolucoes": [{"id": "1", "natureza": "ORIGINAL"}]}, {"txid": "b"}]}
    assert profiles.reshape(record, ["pix.devolucoes.natureza", "pix.nothing", "absent.x"]) == {
        "pix": [{"txid": "a", "devolucoes": [{"id": "1"}]}, {"txid": "b"}]
    }
    assert profiles.reshape(None, ["a"]) is None
    renamed = profiles.reshape(record, [], {"pix.txid": "id", "pix.devolucoes.id": "rtrId"})
    assert renamed == {"pix": [{"id": "a", "devolucoes": [{"rtrId": "1", "natureza": "ORIGINAL"}]}, {"id": "b"}]}


@pytest.mark.parametrize("name", profiles.NAMES)
def test_what_is_called_inferred_is_a_name_of_a_refusal(name: str) -> None:
    profile = profiles.read_profile(name)
    names = {traits.name for group in profile.errors.values() for traits in group.codes.values()}
    assert set(profile.inferred) <= names
