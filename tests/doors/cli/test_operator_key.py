"""``pixconnect key`` as an operator uses it."""

from support.command_line import CommandLine


def test_a_key_is_printed_as_it_is_kept(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    added = pixconnect.json("key", "add", "--holder-id", holder_id, "--key-type", "CPF", "--key", "529.982.247-25")
    assert added == {"key": "52998224725", "key_type": "CPF", "holder_id": int(holder_id)}
    made = pixconnect.json("key", "add", "--holder-id", holder_id, "--key-type", "EVP")
    listed = pixconnect.json("key", "list", "--holder-id", holder_id)
    assert [key["key"] for key in listed["keys"]] == ["52998224725", made["key"]]


def test_a_key_that_is_none_is_refused_in_one_line(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    wrong = ["--holder-id", holder_id, "--key-type", "EMAIL", "--key", "nobody"]
    unnamed = ["--holder-id", holder_id, "--key-type", "EMAIL"]
    assert "--key: missing; the service makes keys of the type EVP only" in pixconnect.refusal("key", "add", *unnamed)
    assert "--key: is no EMAIL: an address" in pixconnect.refusal("key", "add", *wrong)
