"""The pages that a stranger follows from top to bottom, run as they stand against a service that really runs."""

import json
import os
import sys
from pathlib import Path

import pytest

from pixconnect.platform.http.listening import open_listening
from support import pages
from support.installation import environment, run_verb, running
from support.ports import reserved_port

pytestmark = [pytest.mark.journey, pytest.mark.long]

QUICK_START = pages.ROOT / "docs/guides/inicio-rapido.md"
PAGES = (pages.ROOT / "README.md", QUICK_START, pages.ROOT / "docs/guides/first-webhook.md", pages.ROOT / "docs/tutorial.md")
BESIDE = "<!-- in another terminal -->\n"


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=[pytest.mark.each_change] * (page.name == "README.md")) for page in PAGES]
)
def test_a_page_does_what_it_says(page: Path, home_folder: Path, tmp_path: Path) -> None:
    with running(home_folder), reserved_port() as receiver_port:
        pages.run_page(page, tmp_path, _environment(home_folder, receiver_port))
        # Tomorrow, or a colleague: on the same home.
        pages.run_page(page, tmp_path, _environment(home_folder, receiver_port), is_first=False)


def test_pasting_the_guide_changes_the_new_holder_and_no_other(home_folder: Path, tmp_path: Path) -> None:
    with running(home_folder), reserved_port() as receiver_port:
        shell = _environment(home_folder, receiver_port)
        pages.run_page(pages.ROOT / "docs" / "guides" / "onboarding.md", tmp_path, shell)
        listed = json.loads(run_verb(home_folder, "holder", "list", "--json").stdout)["holders"]
        shown = {
            each["name"]: json.loads(
                run_verb(home_folder, "holder", "show", "--holder-id", str(each["holder_id"]), "--json").stdout
            )
            for each in listed
        }
    assert {name for name, holder in shown.items() if "disabled_at" in holder} == {"Maria Silva"}
    assert len(shown) == 2


def test_the_guide_to_contested_money_is_lived_by_the_clock_as_it_stands(home_folder: Path, tmp_path: Path) -> None:
    """After the few lines of another page that it begins with."""
    guide, page = pages.ROOT / "docs" / "guides" / "money-that-is-contested.md", home_folder / "guide.md"
    access = (pages.ROOT / "docs" / "reference" / "access.md").read_text()
    lines = access.partition("### In a shell")[2].partition("```sh\n")[2].partition("```\n")[0]
    with running(home_folder), reserved_port() as receiver_port:
        page.write_text(f"```sh\n{lines}```\n\n{guide.read_text()}")
        pages.run_page(page, tmp_path, _environment(home_folder, receiver_port))


def test_the_quick_start_ends_by_itself_where_its_port_is_taken(home_folder: Path, tmp_path: Path) -> None:
    with running(home_folder), open_listening("127.0.0.1", 0, 1, port_setting="PORT")[0] as taken:
        environment = _environment(home_folder, taken.getsockname()[1])
        with pytest.raises(AssertionError, match=r"(?s)failed: .*no listening.*Address already in use") as told:
            pages.run_page(QUICK_START, tmp_path, environment, is_first=False)
    assert f"took more than {pages.TIMEOUT_S} s" not in str(told.value)


def test_only_what_starts_the_service_is_not_run() -> None:
    skipped = [block for page in PAGES for block in pages.read_blocks(page) if block.language == "sh" and not block.is_run]
    assert [block.text.splitlines()[-1] for block in skipped] == ["make run"] * len(PAGES)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('```sh\necho \'{"a": 1}\'\n```\n```json\n{"a": 2}\n```\n', "1 is not 2"),
        ('```sh\necho \'{"a": 1}\'\n```\n```json\n{"b": 1}\n```\n', "there is no 'b'"),
        ("```sh\necho xyz\n```\n```text\ny...\n```\n", "is not in"),
        (f"{BESIDE}```sh\necho xyz\n```\n{BESIDE}```text\ny...\n```\n", "is not in"),
        ("```sh\nfalse\n```\n", "the block at line 1 failed"),
        ("```sh\ntouch left\n```\n", "leaves files behind"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(text: str, complaint: str, tmp_path: Path) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "folder"
    page.write_text(text)
    folder.mkdir()
    with pytest.raises(AssertionError, match=complaint):
        pages.run_page(page, folder, os.environ)


def _environment(home: Path, receiver_port: int) -> dict[str, str]:
    """A reader's, with this very Python first on the path."""
    python_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([python_folder, os.environ.get("PATH", os.defpath)])
    # Files that verbs keep for the reader are removed with the home.
    own = {"XDG_STATE_HOME": str(home), "PROGRAM_PORT": str(receiver_port), "RECEIVER_PORT": str(receiver_port)}
    return {**environment(home), "PATH": path, **own}
