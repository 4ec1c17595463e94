"""The machine's own randomness."""

from uuid import RFC_4122, UUID

from pixconnect.platform.adapters.system import SystemEntropy


def test_a_uuid7_is_one_and_none_comes_twice() -> None:
    entropy = SystemEntropy()
    # More than are made of one read of randomness.
    texts = [entropy.uuid7() for _ in range(600)]
    made = [UUID(text) for text in texts]
    assert {(uuid.version, uuid.variant) for uuid in made} == {(7, RFC_4122)}
    assert [str(uuid) for uuid in made] == texts
    assert len(set(made)) == len(made)
