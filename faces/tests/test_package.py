"""The installed package: its version, its files, and what it uses of the service."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from flit_core import buildapi

import pixconnect
from pixconnect.kernel.feature import find_others, list_features
from pixconnect_faces import FEATURE

FOLDER = Path(__file__).parents[1]
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_service_finds_it_after_its_own_features() -> None:
    assert dict(find_others()) == {"faces": "pixconnect_faces:FEATURE"}
    assert list_features()[-1] is FEATURE


def test_it_is_of_the_services_release() -> None:
    assert PROJECT["project"]["version"] == pixconnect.__version__
    assert PROJECT["project"]["dependencies"] == [f"pixconnect=={pixconnect.__version__}"]
    assert (FOLDER / "LICENSE").read_bytes() == (FOLDER.parent / "LICENSE").read_bytes()


def test_it_imports_the_features_that_it_names() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (FOLDER / "src").rglob("*.py")]
    found = {name for text in texts for name in re.findall(r"from pixconnect\.features\.(\w+)[. ]", text)}
    assert sorted(found) == PROJECT["tool"]["pixconnect"]["features"]


def test_the_wheel_has_its_types_its_licence_and_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with zipfile.ZipFile(tmp_path / buildapi.build_wheel(str(tmp_path))) as wheel:
        about = f"pixconnect_faces-{pixconnect.__version__}.dist-info"
        assert {"pixconnect_faces/py.typed", f"{about}/licenses/LICENSE"} <= {*wheel.namelist()}
        assert {name.partition("/")[0] for name in wheel.namelist()} == {"pixconnect_faces", about}
        assert (FOLDER / "README.md").read_text(encoding="utf-8").strip() in wheel.read(f"{about}/METADATA").decode()
