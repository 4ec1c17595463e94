"""The page on failures, whose ``text`` blocks must match the results of experiments exactly."""

from support.installation import ROOT

PAGE = (ROOT / "docs" / "guides" / "failure.md").read_text(encoding="utf-8")


def quoted(heading: str) -> list[str]:
    """Return the observed lines under a heading of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return section.partition("```text\n")[2].partition("```")[0].splitlines()
