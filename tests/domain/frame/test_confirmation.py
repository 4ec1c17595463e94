"""Names that belong to other channels, and logins as names."""

import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.confirmation import check_second_login, names_another_door


@pytest.mark.parametrize(
    "name",
    ["console maria", "Client x", "  console", "c\u00adonsole maria", "\uff43onsole\u2003maria", "console\tmaria"],
)
def test_a_name_of_the_command_line_reads_as_none_of_another_door(name: str) -> None:
    assert names_another_door(name)


@pytest.mark.parametrize("name", ["", "ana", "root@host", "consoles", "ana console", "clientele"])
def test_other_names_are_taken(name: str) -> None:
    assert not names_another_door(name)


def test_what_one_login_has_proposed_another_one_confirms() -> None:
    check_second_login("confirm", "bia_ops", "ana_ops")
    with pytest.raises(
        errors.Forbidden, match="confirm: it was proposed by ops, the database login of this command too"
    ):
        check_second_login("confirm", "ops", "ops")
