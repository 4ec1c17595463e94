"""``docs/reference/faces.md``, from the tables of faces and the profiles."""

from collections.abc import Sequence

from pixconnect.api.faces.frame import Face, FaceOperation, list_rows_of_profile
from pixconnect.api.faces.operations import TABLES
from pixconnect.domain.profiles.profile import HomologationTraits, InstitutionProfile, read_profile

_HEAD = """\
# Faces

What is spoken of each institution's interface in the sandbox, and how it is known. Written by `make docs` from
`src/pixconnect/api/faces` and the profiles in `src/pixconnect/domain/profiles`. We are affiliated with none of these
institutions, and nobody here has reached their environments.

How an operation is known: *seen* is a recording; *read* an official source; *one source* something else, once; *inferred*
our own conclusion. Nothing is called faithful that no source says. Faces are in sandbox mode only.
"""


def write_page() -> str:
    """``docs/reference/faces.md``."""
    parts = [_HEAD]
    for name, list_rows in TABLES.items():
        profile = read_profile(name)
        rows = list_rows(Face(profile=profile))
        known = {row.id for row in rows}
        own = list_rows(Face(profile=profile, is_homologation=True))
        # An institution that is a profile alone has no rules of its own there.
        has_rules = list_rows is not list_rows_of_profile
        parts.append(_write_face(profile, [*rows, *(row for row in own if row.id not in known)], has_rules=has_rules))
    return "\n".join(parts)


def _write_face(profile: InstitutionProfile, rows: Sequence[FaceOperation], *, has_rules: bool) -> str:
    rules = "with the rules of its own test environment" if has_rules else "without rules of its test environment also"
    lines = [
        f"## {profile.title}",
        "",
        f"Below `/faces/{profile.name}`; {rules} below `/faces/{profile.name}+homologation`. On a",
        f"listener of its own (`PIXCONNECT_FACES`), usually on the ports {profile.ports.production} and "
        f"{profile.ports.homologation}, a client certificate is "
        + ("required" if profile.client_certificate == "required" else "not asked for")
        + ".",
        f"Checked by {profile.checked_by}, unmodified."
        if profile.checked_by
        else "*Read, never run*: no library checks it.",
        "",
        "| Operation | Done | Known | Differs |",
        "|---|---|---|---|",
        *(
            [f"| `POST {profile.token.path}` | yes | {profile.token.known} | {profile.token.differs} |"]
            if profile.token.path
            else []
        ),
        *(f"| `{row.method} {row.path}` | yes | {row.known} | {row.differs} |" for row in rows),
        *(f"| `{path}` | no | | {reason} |" for path, reason in profile.not_done.items()),
        "",
        *(_write_choices(profile) if profile.choices else ()),
        *(
            (f"No source has these names of refusals: {', '.join(f'`{name}`' for name in profile.inferred)}.", "")
            if profile.inferred
            else ()
        ),
        *(
            (
                "Where its official document slips, and what is answered:",
                "",
                *(f"- {slip}" for slip in profile.slips),
                "",
            )
            if profile.slips
            else ()
        ),
        *(_write_amounts(profile.homologation) if profile.homologation.test_key else ()),
        *(_write_accounts(profile.homologation) if profile.homologation.rejected_accounts else ()),
        *(_write_scopes(profile) if profile.scopes else ()),
    ]
    return "\n".join(lines)


def _write_scopes(profile: InstitutionProfile) -> Sequence[str]:
    return (
        "Scopes, in its words and in ours:",
        "",
        "| There | Here |",
        "|---|---|",
        *(f"| `{theirs}` | `{ours}` |" for theirs, ours in profile.scopes.items()),
        "",
    )


def _write_accounts(rules: HomologationTraits) -> Sequence[str]:
    return (
        "Its own test environment goes by the number of the account that is paid: with these the send is taken, and rejected",
        "later. In brackets is the network's code, which for accounts with a name of their own is inferred.",
        "",
        "| Account | Told as |",
        "|---|---|",
        *(
            f"| {number} | {f'`{names[0]}` (`{code}`)' if names else f'`{code}`'} |"
            for number, (code, *names) in rules.rejected_accounts.items()
        ),
        "",
    )


def _write_choices(profile: InstitutionProfile) -> Sequence[str]:
    return (
        "Where no source says what it answers, `PIXCONNECT_FACE_ANSWERS` chooses; the first is taken otherwise:",
        "",
        "| Choice | Answers | About |",
        "|---|---|---|",
        *(
            f"| `{profile.name}.{name}` | {', '.join(f'`{answer}`' for answer in choice.answers)} | {choice.about} |"
            for name, choice in profile.choices.items()
        ),
        "",
    )


def _write_amounts(rules: HomologationTraits) -> Sequence[str]:
    return (
        "Its own test environment goes by amount, in cents:",
        "",
        "| Amount | What happens |",
        "|---|---|",
        f"| a charge of at most {rules.paid_cents_max} | is paid by itself |",
        f"| a send of at most {rules.sent_cents_max} | is done |",
        f"| a send of at most {rules.rejected_cents_max} | is taken, and rejected later |",
        "| a send of more | is refused at once |",
        f"| a refund of {rules.refund_rejected_cents} | is taken, and rejected later |",
        *(
            f"| a send of {amount} | is done, and {' and '.join(map(str, parts))} come back |"
            for amount, parts in rules.returned_cents.items()
        ),
        "",
        f"There only the key `{rules.test_key}` can be paid.",
        "",
    )
