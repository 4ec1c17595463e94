"""``docs/reference/faces.md``, from the tables of the simulated banks and the profiles."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from pixconnect.features.institutions.profiles.profile import HomologationTraits, InstitutionProfile, read_profile
from pixconnect.features.institutions.rules.recording import RehearsalRecording, is_of_path
from pixconnect_faces.api import TABLES
from pixconnect_faces.frame import Face, FaceOperation, list_rows_of_profile

RECORDINGS: Final = Path(__file__).parent.parent.parent / "tests" / "vectors" / "recordings"
"""Recordings by `pixconnect institution rehearse --record`."""
_HEAD = """\
# Faces

The supported operations of each institution's interface in the sandbox, and their sources. Written by `make docs` from
`faces/src/pixconnect_faces` and the profiles in `src/pixconnect/features/institutions/profiles`.
We are not affiliated with these institutions, and have not reached their environments. Faces exist only in sandbox mode.

*Known* is the source: *seen on* a day is a recording of the institution's test environment by `pixconnect institution
rehearse` (none yet); *read* is an official source; *one source* is a single other source; *inferred* is our conclusion.
"""


def write_page() -> str:
    """``docs/reference/faces.md``."""
    recordings = read_recordings(RECORDINGS)
    parts = [_HEAD]
    for name, list_rows in TABLES.items():
        profile = read_profile(name)
        rows = list_rows(Face(profile=profile))
        known = {row.id for row in rows}
        own = list_rows(Face(profile=profile, is_homologation=True))
        # An institution that is only a profile has no rules of its own there.
        has_rules = list_rows is not list_rows_of_profile
        all_rows = [*rows, *(row for row in own if row.id not in known)]
        seen = [one for one in recordings if one.profile == name]
        parts.append(_write_face(profile, all_rows, seen, has_rules=has_rules))
    return "\n".join(parts)


def read_recordings(folder: Path) -> list[RehearsalRecording]:
    """Recordings at the institutions' own test environments; those at our simulations prove nothing about them."""
    found = [msgspec.json.decode(file.read_bytes(), type=RehearsalRecording) for file in sorted(folder.glob("*.json"))]
    return [one for one in found if one.environment == "homologation"]


def find_known(row: FaceOperation, recordings: Sequence[RehearsalRecording]) -> str:
    """The evidence for an operation: the newest recording in which it succeeded, or its table's source."""
    days = [
        recording.made_at.date().isoformat()
        for recording in recordings
        for exchange in recording.exchanges
        if exchange.method == row.method
        and exchange.status is not None
        and 200 <= exchange.status <= 299
        and is_of_path(row.path, exchange.path)
    ]
    return f"seen on {max(days)}" if days else row.known


def _write_face(
    profile: InstitutionProfile, rows: Sequence[FaceOperation], recordings: Sequence[RehearsalRecording], *, has_rules: bool
) -> str:
    rules = "with the rules of its test environment" if has_rules else "without test rules"
    asked = "required" if profile.client_certificate == "required" else "not requested"
    checked = f"Checked by {profile.checked_by}, unmodified." if profile.checked_by else ""
    token = [(f"`POST {profile.token.path}`", "yes", profile.token.known, profile.token.differs)]
    inferred = ", ".join(f"`{name}`" for name in profile.inferred)
    slips = [f"- {slip}" for slip in profile.slips]
    lines = [
        f"## {profile.title}",
        "",
        f"Below `/faces/{profile.name}`; {rules} below `/faces/{profile.name}+homologation`. On a",
        f"separate listener (`PIXCONNECT_FACES`), by default on the ports {profile.ports.production} and "
        f"{profile.ports.homologation}, a client certificate is {asked}.",
        *_write_table(
            checked or "*Read, never run*: no library checks it.",
            ("Operation", "Done", "Known", "Differs"),
            [
                *(token if profile.token.path else ()),
                *((f"`{row.method} {row.path}`", "yes", find_known(row, recordings), row.differs) for row in rows),
                *((f"`{path}`", "no", "", reason) for path, reason in profile.not_done.items()),
            ],
        ),
        *_write_table(
            "If no source has its answer, `PIXCONNECT_FACE_ANSWERS` selects one; the first is the default:",
            ("Choice", "Answers", "About"),
            [
                (f"`{profile.name}.{name}`", ", ".join(f"`{answer}`" for answer in choice.answers), choice.about)
                for name, choice in profile.choices.items()
            ],
        ),
        *((f"No source has these names of refusals: {inferred}.", "") if inferred else ()),
        *(("Errors in its official document, and the face's answers:", "", *slips, "") if slips else ()),
        *(_write_amounts(profile.homologation) if profile.homologation.test_key else ()),
        *_write_table(
            "Its test environment decides by the payee's account number: sends to these are accepted and later rejected. The\n"
            "network's code in brackets is inferred.",
            ("Account", "Reported as"),
            [
                (number, f"`{names[0]}` (`{code}`)" if names else f"`{code}`")
                for number, (code, *names) in profile.homologation.rejected_accounts.items()
            ],
        ),
        *_write_table(
            "Its scopes and ours:",
            ("Its scope", "Ours"),
            [(f"`{theirs}`", f"`{ours}`") for theirs, ours in profile.scopes.items()],
        ),
    ]
    return "\n".join(lines)


def _write_table(about: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Sequence[str]:
    """Nothing without rows."""
    if not rows:
        return ()
    told = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return (about, "", told[0], "|---" * len(heads) + "|", *told[1:], "")


def _write_amounts(rules: HomologationTraits) -> Sequence[str]:
    return (
        *_write_table(
            "Its test environment decides by the amount, in cents:",
            ("Amount", "Result"),
            [
                (f"a charge of at most {rules.paid_cents_max}", "is paid automatically"),
                (f"a send of at most {rules.sent_cents_max}", "settles"),
                (f"a send of at most {rules.rejected_cents_max}", "is accepted, and rejected later"),
                ("a send of more", "is refused at once"),
                (f"a refund of {rules.refund_rejected_cents}", "is accepted, and rejected later"),
                *(
                    (f"a send of {amount}", f"settles, and {' and '.join(map(str, parts))} come back")
                    for amount, parts in rules.returned_cents.items()
                ),
            ],
        ),
        f"Only the key `{rules.test_key}` can be paid.",
        "",
    )
