"""The folder of the embedded server's socket belongs to its user alone, even in a folder that everybody may write."""

from pathlib import Path

import pytest

from pixconnect.platform.local import postgres_placement
from pixconnect.platform.local.postgres_placement import PostgresUnavailableError


def test_a_folder_is_made_or_closed_to_others(tmp_path: Path) -> None:
    for folder in (tmp_path / "new", tmp_path / "open"):
        if folder.name == "open":
            folder.mkdir(mode=0o755)
        postgres_placement.make_private(folder, None)
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_put_there_after_our_look_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, folder = tmp_path / "theirs", tmp_path / "socket"
    target.mkdir(mode=0o755)
    target.chmod(0o755)
    folder.mkdir(mode=0o700)
    original = Path.mkdir

    def overtaken(path: Path, *arguments: object, **options: object) -> None:
        """It is found, and then replaced by a link."""
        folder.rmdir()
        folder.symlink_to(target)
        raise FileExistsError

    monkeypatch.setattr(Path, "mkdir", overtaken)
    monkeypatch.setattr(Path, "lstat", lambda _: target.stat())
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)
    with pytest.raises(PostgresUnavailableError, match="belongs to another user"):
        postgres_placement.make_private(folder, None)
    monkeypatch.setattr(Path, "mkdir", original)
    assert target.stat().st_mode & 0o777 == 0o755
