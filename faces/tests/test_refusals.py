"""Errors of an institution's own rules, in each institution's form."""

from datetime import UTC, datetime

import pytest

from pixconnect.features.institutions.profiles.profile import NAMES, read_profile
from pixconnect_faces.refusals import NamedRefusal, make_face_form

NOW = datetime(2026, 7, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize("name", NAMES)
def test_the_reason_of_a_rule_without_a_text_of_its_own_is_told_in_each_group(name: str) -> None:
    profile = read_profile(name)
    for group in profile.errors:
        refused = make_face_form(profile, group).write(NamedRefusal("NO_SUCH_NAME", "a URL respondeu 418"), "id", NOW)
        assert b"a URL respondeu 418" in refused.content, group


def test_a_text_of_the_institutions_is_told_as_it_is() -> None:
    profile = read_profile("efi")
    refused = make_face_form(profile, "code").write(NamedRefusal("SWITCHED_OFF", "aqui não"), "id", NOW)
    assert "Funcionalidade desabilitada em ambiente de homologação.".encode() in refused.content
    assert "aqui não".encode() not in refused.content
