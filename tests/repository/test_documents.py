"""Pages lead where they say, name what exists, and have the form that was agreed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixconnect.domain.profiles.profile import NAMES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "Alternatives", "Enforced by"]

# Where a path in a text may begin.
_SOURCE = ROOT / "src" / "pixconnect"
_BASES = (ROOT, _SOURCE, _SOURCE / "store", ROOT / "clients" / "python" / "src" / "pixconnect_client")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NAMED = re.compile(r"`([a-z_./0-9-]+/[a-z_./0-9-]*|[a-z_0-9/]+\.(?:py|sql|md|toml))`")
_TEST = re.compile(r"`(test_[a-z0-9_]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in _anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *DECISIONS], ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in _NAMED.findall(text):
        if "/" in name or name.endswith((".py", ".sql")):
            assert any((base / name).exists() for base in _BASES), f"{page.name} names {name}"
    known = _test_names()
    for name in _TEST.findall(text):
        assert name in known or list((ROOT / "tests").rglob(f"{name}.py")), f"{page.name} names {name}"


def test_what_texts_call_a_module_of_ours_is_one() -> None:
    """Paths and dotted names, in docstrings and on pages, follow what they name when it moves."""
    modules = {
        ".".join(path.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in _SOURCE.rglob("*.py")
    }
    rooms = "|".join(sorted(folder.name for folder in _SOURCE.iterdir() if (folder / "__init__.py").exists()))
    dotted = re.compile(rf"`(?:pixconnect\.)?((?:{rooms})(?!\.(?:json|key|py)`)(?:\.[A-Za-z_0-9]+)+)(?:\(\))?`")
    path_of_ours = re.compile(rf"`((?:src/pixconnect/)?(?:{rooms})/[a-z_0-9/]+\.py)`")
    wrong = list[str]()
    folders = [_SOURCE, *(ROOT / name for name in ("tests", "support", "scripts", "bench", "clients/python/src"))]
    for file in [*PAGES, ROOT / "pyproject.toml", *(path for folder in folders for path in folder.rglob("*.py"))]:
        text = file.read_text(encoding="utf-8")
        wrong += [f"{file.relative_to(ROOT)}: {name}" for name in dotted.findall(text) if not _is_named(name, modules)]
        wrong += [
            f"{file.relative_to(ROOT)}: {name}"
            for name in path_of_ours.findall(text)
            if not any((base / name).exists() for base in _BASES)
        ]
    assert not wrong


def _is_named(name: str, modules: dict[str, Path]) -> bool:
    """Whether a dotted name is a module, or something that a module defines."""
    if name in modules:
        return True
    module, _, last = name.rpartition(".")
    if module not in modules:
        return module.count(".") > 0 and _is_named(module, modules)
    return (
        re.search(rf"^(?:(?:async )?def |class )?{last}\b", modules[module].read_text(encoding="utf-8"), re.MULTILINE)
        is not None
    )


def test_every_page_can_be_found_from_the_index() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in _LINK.findall(_prose(DOCS / "README.md"))}
    unlisted = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page.resolve() not in listed]
    assert unlisted == [Path("README.md")]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {page.stem[:4]}: "), "the title begins with the number"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS


def test_decisions_are_numbered_without_gaps() -> None:
    assert [page.stem[:4] for page in DECISIONS] == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]


def test_the_quick_start_in_portuguese_has_the_commands_of_the_readme_which_a_test_runs() -> None:
    block = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
    pages = (ROOT / "README.md", DOCS / "guides" / "inicio-rapido.md")
    readme, portuguese = (block.findall(page.read_text(encoding="utf-8")) for page in pages)
    assert portuguese == readme, "copy the commands of the README into docs/guides/inicio-rapido.md"


def test_the_readme_and_the_makefile_agree() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z0-9-]+)`", page.read_text(encoding="utf-8")))
        assert named <= targets, f"{page.name} names {named - targets}"


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """The names by which headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _test_names() -> set[str]:
    return set(_find_tests())


def _find_tests() -> Iterator[str]:
    for file in (ROOT / "tests").rglob("test_*.py"):
        yield from re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))


_IN_A_FILE = re.compile(r"((?:`[A-Za-z_]\w*`(?:, | and |, and )?)+)\s+in\s+(?:the client's\s+)?`([a-z_/]+\.py)`")


def test_what_the_pages_say_is_in_a_file_is_in_it() -> None:
    said = [
        (name, found[2])
        for page in ("ARCHITECTURE.md", "CONTRIBUTING.md")
        for found in _IN_A_FILE.finditer((ROOT / page).read_text(encoding="utf-8"))
        for name in re.findall(r"\w+", found[1])
        if name != "and"
    ]
    assert len(said) > 20
    assert [(name, path) for name, path in said if not _is_in(name, path)] == []


def _is_in(name: str, path: str) -> bool:
    files = [base / path for base in _BASES if (base / path).is_file()] or list(_SOURCE.rglob(path))
    return any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in files)


def test_the_guide_names_each_profile_that_an_account_may_have() -> None:
    guide = (DOCS / "guides" / "receive-at-an-institution.md").read_text(encoding="utf-8")
    kinds = re.findall(r"kind = \"efi\" +# or ([a-z, ]+), standard", guide)[0].split(", ")
    listed = re.findall(r"needs a `profile`: (.+)\.\n", guide)[0]
    assert set(re.findall("`([a-z0-9]+)`", listed)) == set(NAMES) - {"efi", *kinds}
