"""Sealed secrets can only be opened with their key and context."""

import base64
import json
from pathlib import Path

import pytest

from pixconnect.platform import config
from pixconnect.platform.adapters import secret_box
from pixconnect.platform.adapters.secret_box import AesSecretBox, SecretKeyError
from pixconnect.platform.adapters.system import SystemEntropy
from pixconnect.platform.base.entropy import SealBroken, SecretBox

KEY = bytes(range(32))
ENTROPY = SystemEntropy()
VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "secret_box.json").read_text())


def make_box(key: bytes = KEY, previous_key: bytes | None = None) -> SecretBox:
    return AesSecretBox(key, ENTROPY, previous_key=previous_key)


def test_what_is_sealed_opens_again() -> None:
    sealed = make_box().seal(b"secret", "webhook:1")
    assert b"secret" not in sealed
    assert make_box().open(sealed, "webhook:1") == b"secret"


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    assert make_box().seal(b"secret", "a") != make_box().seal(b"secret", "a")


def test_a_seal_is_broken_about_something_else_or_with_another_key() -> None:
    sealed = make_box().seal(b"secret", "webhook:1")
    with pytest.raises(SealBroken):
        make_box().open(sealed, "webhook:2")
    with pytest.raises(SealBroken):
        make_box(bytes(32)).open(sealed, "webhook:1")


def test_any_changed_byte_breaks_the_seal() -> None:
    sealed = make_box().seal(b"secret", "a")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(SealBroken):
            make_box().open(bytes(changed), "a")


@pytest.mark.parametrize("length", [0, 1, 5, 13, 20])
def test_a_cut_seal_is_broken(length: int) -> None:
    with pytest.raises(SealBroken):
        make_box().open(make_box().seal(b"secret", "a")[:length], "a")


def test_a_fingerprint_is_the_same_each_time_and_bound_to_key_and_purpose() -> None:
    [mark] = make_box().fingerprints(b"secret", "a")
    assert [mark] == make_box().fingerprints(b"secret", "a")
    others = [
        *make_box().fingerprints(b"secret", "b"),
        *make_box().fingerprints(b"Secret", "a"),
        *make_box(bytes(32)).fingerprints(b"secret", "a"),
    ]
    assert len({mark, *others}) == 4
    assert len(mark) == 32


def test_a_new_key_seals_and_the_previous_one_is_still_read() -> None:
    old, new = make_box(), make_box(bytes(32), previous_key=KEY)
    sealed_before, sealed_now = old.seal(b"before", "a"), new.seal(b"now", "a")
    assert new.open(sealed_before, "a") == b"before"
    assert make_box(bytes(32)).open(sealed_now, "a") == b"now"
    assert sealed_now.startswith(new.seal_head)
    assert not sealed_before.startswith(new.seal_head)
    with pytest.raises(SealBroken, match="another secret key"):
        old.open(sealed_now, "a")
    assert new.fingerprints(b"s", "a") == [*make_box(bytes(32)).fingerprints(b"s", "a"), *old.fingerprints(b"s", "a")]


def test_what_was_stored_is_read_for_ever() -> None:
    plain = bytes.fromhex(VECTORS["sealed_without_key_id"])
    assert make_box().open(plain, "signing_key:x") == b"secret"
    assert make_box(bytes(32), previous_key=KEY).open(plain, "signing_key:x") == b"secret"
    assert make_box().open(bytes.fromhex(VECTORS["sealed"]), "signing_key:x") == b"secret"
    assert [mark.hex() for mark in make_box().fingerprints(b"secret", "client_secret")] == [VECTORS["fingerprint"]]
    assert make_box().key_id.hex() == VECTORS["key_id"]


def test_a_configured_key_is_used_and_nothing_is_written(tmp_path: Path) -> None:
    text = base64.urlsafe_b64encode(KEY).decode().rstrip("=")
    assert secret_box.read_or_make_secret_key(text, tmp_path, ENTROPY) == KEY
    assert list(tmp_path.iterdir()) == []


def test_the_key_file_is_made_once_and_is_ours_alone(tmp_path: Path) -> None:
    key = secret_box.read_or_make_secret_key("", tmp_path, ENTROPY)
    assert secret_box.read_or_make_secret_key("", tmp_path, ENTROPY) == key
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["x", "A" * 42, "A" * 44, "!" * 43, "é"])
def test_a_key_of_another_form_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(SecretKeyError, match=r"PIXCONNECT_SECRET_KEY: must be 32 bytes in base64url$"):
        secret_box.parse_secret_key(text)


def test_a_damaged_key_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / config.KEY_FILE).write_text("damaged")
    with pytest.raises(SecretKeyError, match="restore it"):
        secret_box.read_or_make_secret_key("", tmp_path, ENTROPY)
    assert (tmp_path / config.KEY_FILE).read_text() == "damaged"


def test_no_key_is_made_for_an_installation_that_should_have_one(tmp_path: Path) -> None:
    with pytest.raises(SecretKeyError, match="there is no secret key"):
        secret_box.read_secret_key("", tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
