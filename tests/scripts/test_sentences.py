"""The list of untypical sentences finds its samples, where they stand, and lets plain ones be."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import sentences

ROOT = Path(__file__).resolve().parents[2]

UNTYPICAL = (
    ("begins with Of", "Of so many holders the rows of a status are found by each one's index."),
    ("begins with Let", "Let it be so."),
    ("begins with a relative clause", "What a rule needs and cannot be asked is passed over."),
    ("what, as the subject of a clause", "How it ends: what accepting takes is missing for what was accepted before."),
    ("who, for an actor without a name", "Its batches follow one another, and who comes later finds it apart already."),
    ("who ... so", "One minute: the person who is locked out so waits that long."),
    ("what, as the subject of a clause", "A full queue refuses, and what is refused has no row."),
    ("what, for a thing without a name", "The caller of what comes later."),
    ("a passive without its actor", "Positions in the feed are not heard of."),
    ("have something done", "Have the caller told of each payment to a key of theirs."),
    ("a noun for a verb", "The telling of an event takes one request."),
    ("somebody, for an actor with a name", "The directory counts each time somebody asks for a key."),
    ("so, for in this way", "A report that was kept so."),
    ("a relative clause far from its noun", "The sum for each of the holders, that it reads first."),
    ("no such turn in English", "There is nothing left but the row."),
)

PLAIN = (
    "The worker sends each event to its endpoint, and tries again when the receiver does not answer.",
    "A full queue refuses the request.",
    "Fewer rows are read, so that the plan stays the same.",
    "Which holder owns this key?",
)


@pytest.mark.parametrize(("pattern", "sentence"), UNTYPICAL, ids=[sentence for _, sentence in UNTYPICAL])
def test_an_untypical_sentence_is_found_under_its_pattern(pattern: str, sentence: str) -> None:
    assert [finding.pattern for finding in sentences.find(".md", sentence)] == [pattern]


def test_each_pattern_has_a_sample() -> None:
    assert {pattern for pattern, _ in UNTYPICAL} == set(sentences.PATTERNS)


@pytest.mark.parametrize("sentence", PLAIN)
def test_a_plain_sentence_is_not(sentence: str) -> None:
    assert sentences.find(".md", sentence) == []


def test_a_program_is_read_in_its_docstrings_comments_and_texts() -> None:
    source = '''"""What is kept here is read by nobody."""

# Of two rows the older
# one wins.
raise ValueError(f"{name} is not told of its payment")


def look() -> None:
    """Read it.

    Somebody else may write meanwhile.
    """
'''
    assert [(finding.line, finding.pattern) for finding in sentences.find(".py", source)] == [
        (1, "begins with a relative clause"),
        (5, "a passive without its actor"),
        (11, "somebody, for an actor with a name"),
        (3, "begins with Of"),
    ]


def test_a_page_is_read_by_paragraphs_without_its_programs() -> None:
    page = "# Of headlines\n\nPlain words here.\n\n```sh\necho Of course\n```\n\n- Let it be\n  so.\n"
    assert [(finding.line, finding.pattern) for finding in sentences.find(".md", page)] == [
        (1, "begins with Of"),
        (9, "begins with Let"),
    ]


def test_the_catalogue_and_templates_are_read_too() -> None:
    assert [
        finding.line for finding in sentences.find(".po", 'msgid ""\nmsgstr ""\n\nmsgid ""\n"Let it "\n"be so"\n')
    ] == [4]
    assert [
        finding.line for finding in sentences.find(".html", "<p>\n  {% trans %}Let it be so{% endtrans %}\n</p>")
    ] == [2]


def test_it_says_how_many_it_found() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.sentences", "--count", "tests/scripts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    *folders, total = (line.split() for line in done.stdout.splitlines())
    assert total[1:] == ["sentences"]
    assert int(total[0]) == sum(int(count) for count, _ in folders) > 0
