"""``pixconnect signing-key`` as an operator uses it."""

from support.command_line import CommandLine


def test_a_key_is_revoked_by_its_name_and_the_list_says_so(pixconnect: CommandLine) -> None:
    leaked = pixconnect.json("signing-key", "rotate")["kid"]
    done = pixconnect.json("signing-key", "revoke", leaked)
    assert done["revoked"] == leaked != done["kid"]
    assert done["signs_from"] == done["created_at"]
    listed = pixconnect.json("signing-key", "list")["keys"]
    assert [(key["kid"], "revoked_at" in key) for key in listed] == [(done["kid"], False), (leaked, True)]
    assert pixconnect.json("signing-key", "revoke", "--kid", leaked)["kid"] == done["kid"]
    assert "there is no signing key x" in pixconnect.refusal("signing-key", "revoke", "x")


def test_a_key_whose_name_begins_with_a_hyphen_is_no_option(pixconnect: CommandLine) -> None:
    for words in (("-yY",), ("--kid", "-yY"), ("--json", "-yY")):
        assert "there is no signing key -yY" in pixconnect.refusal("signing-key", "revoke", *words)
