"""The installed package."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from flit_core import buildapi

import pixconnect_client

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "python"


@pytest.fixture
def in_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CLIENT)


@pytest.mark.usefixtures("in_its_folder")
def test_the_wheel_has_its_types_its_licence_and_its_page(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / buildapi.build_wheel(str(tmp_path))) as wheel:
        names = set(wheel.namelist())
        about = f"pixconnect_client-{pixconnect_client.__version__}.dist-info"
        assert {"pixconnect_client/py.typed", f"{about}/licenses/LICENSE"} <= names
        metadata = wheel.read(f"{about}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert (CLIENT / "README.md").read_text(encoding="utf-8").strip() in metadata
    assert {name.partition("/")[0] for name in names} == {"pixconnect_client", about}


@pytest.mark.usefixtures("in_its_folder")
def test_the_source_has_them_too(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / buildapi.build_sdist(str(tmp_path))) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "src/pixconnect_client/py.typed"} <= names


def test_the_licence_is_the_repositorys() -> None:
    assert (CLIENT / "LICENSE").read_bytes() == (CLIENT.parents[1] / "LICENSE").read_bytes()


def test_it_loads_no_server_and_what_takes_long_only_where_it_is_used() -> None:
    slow = "{'httpx2', 'cryptography', 'asyncio', 'pixconnect', 'pytest'}"
    asked = f"import sys, pixconnect_client; print(sorted({slow} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
