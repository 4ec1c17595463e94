"""Features that can be removed stay so, and a removal takes everything that names the feature in a copy of the tree."""

from pathlib import Path

import pytest

from pixconnect.features import FEATURES, NEEDED
from pixconnect.kernel.feature import find_others
from scripts import without

REMOVABLE = {
    "approvals", "console_pages", "contests", "documentation", "faces", "finding", "lots", "people", "prepared_transfers",
    "receipts", "statements", "traces",
}  # fmt: skip
"""No import keeps these. The set may only grow."""


def test_features_that_can_be_removed_stay_so() -> None:
    assert set(NEEDED) < FEATURES.keys()
    assert set(without.list_removable()) >= REMOVABLE


def test_dependents_go_with_a_feature_and_needed_ones_stay() -> None:
    removed = without.with_dependents({"statements"})
    assert {"documentation", "faces"} <= removed
    assert not removed & set(NEEDED)
    obstacles = without.find_obstacles({"webhooks"})
    assert "src/pixconnect/assembly/worker.py" in {line.partition(":")[0] for line in obstacles}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    texts = {
        "src/pixconnect/features/__init__.py": (
            "FEATURES = {\n    # Receipts.\n    'receipts': (),\n    # People.\n    'people': (\n        'a',\n    ),\n}\n"
        ),
        "src/pixconnect/features/people/__init__.py": "",
        "src/pixconnect/features/receipts/__init__.py": "",
        "tests/features/people/test_service.py": "",
        "pyproject.toml": 'ignore_imports = [\n    "pixconnect.doors.a -> pixconnect.features.people.b",\n    "x -> y",\n]\n',
        "support/using.py": "from pixconnect.features.people.service import erase\n",
        "support/other.py": "",
        "tests/kernel/test_a.py": "from support.using import erase\n",
        "tests/kernel/test_b.py": "from support import other, using\n",
        "tests/kernel/test_c.py": "from support import other\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_removal_takes_the_folder_its_line_its_tests_and_their_users(tree: Path) -> None:
    users = without.remove(tree, {"people"})
    assert users == ["support/using.py", "tests/kernel/test_a.py", "tests/kernel/test_b.py"]
    left = {str(path.relative_to(tree)) for path in tree.rglob("*.py")}
    assert left == {
        "src/pixconnect/features/__init__.py", "src/pixconnect/features/receipts/__init__.py", "support/other.py",
        "tests/kernel/test_c.py",
    }  # fmt: skip
    registry = (tree / "src/pixconnect/features/__init__.py").read_text()
    assert registry == "FEATURES = {\n    # Receipts.\n    'receipts': (),\n}\n"
    assert "people" not in (tree / "pyproject.toml").read_text()
    assert '"x -> y"' in (tree / "pyproject.toml").read_text()


def test_the_faces_go_with_their_distribution_which_the_copy_no_longer_finds(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "faces/src/pixconnect_faces").mkdir(parents=True)
    (tree / "support/other.py").write_text("from pixconnect_faces import frame\n")
    (tree / "pyproject.toml").write_text('forbidden_modules = ["pixconnect_faces"]\n')
    assert without.remove(tree, {"faces"}) == ["support/other.py", "tests/kernel/test_b.py", "tests/kernel/test_c.py"]
    assert not (tree / "faces").exists()
    assert "faces" not in (tree / "pyproject.toml").read_text()
    monkeypatch.syspath_prepend(tree / "src")
    find_others.cache_clear()
    assert "faces" not in find_others()
    find_others.cache_clear()
