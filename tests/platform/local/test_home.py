from pathlib import Path

import pytest

from pixconnect.platform.local.home import Home, HomeError


def test_a_second_instance_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    first = Home(tmp_path, "1.0.0")
    with pytest.raises(HomeError, match=r"another instance .process [0-9]+. runs on"):
        Home(tmp_path, "1.0.0")
    first.close()
    Home(tmp_path, "1.0.0").close()


def test_a_home_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text('{"format":2,"version":"9.1.0"}')
    with pytest.raises(HomeError, match=r"written by pixconnect 9\.1\.0, which is newer"):
        Home(tmp_path, "1.0.0")


def test_a_damaged_home_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text("{")
    with pytest.raises(HomeError, match=r"home\.json is damaged: restore it"):
        Home(tmp_path, "1.0.0")
    assert (tmp_path / "home.json").read_text() == "{"


def test_a_home_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(HomeError, match="is not a folder: set PIXCONNECT_HOME"):
            Home(path, "1.0.0")


def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="cannot be written"):
        Home(Path("/proc/pixconnect"), "1.0.0")


def test_a_new_home_shows_nothing_to_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home", "1.0.0")
    assert home.path.stat().st_mode & 0o066 == 0
    assert home.write("secret.json", b"{}").stat().st_mode & 0o777 == 0o600
    assert home.read("secret.json") == b"{}"
    home.remove("secret.json")
    assert home.read("secret.json") is None
    home.close()


def test_the_permissions_of_a_folder_that_was_there_are_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    Home(tmp_path, "1.0.0").close()
    assert tmp_path.stat().st_mode & 0o777 == 0o750
