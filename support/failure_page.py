"""The page on failures, whose ``text`` blocks say what experiments have seen, word by word."""

from support.installation import ROOT

PAGE = (ROOT / "docs" / "guides" / "failure.md").read_text(encoding="utf-8")


def quoted(heading: str) -> list[str]:
    """The lines that the page says were seen under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return section.partition("```text\n")[2].partition("```")[0].splitlines()
