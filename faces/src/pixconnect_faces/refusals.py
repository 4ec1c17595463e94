"""Refusals in an institution's form: status, name and body by its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

import msgspec

from pixconnect.doors.api import envelope
from pixconnect.doors.api.envelope import Refused
from pixconnect.doors.api.operation import RefusalForm
from pixconnect.features.institutions.profiles.profile import InstitutionProfile, RefusalTemplate, RefusalTraits
from pixconnect.features.locations.problem import describe_refusal
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.base.errors import Violated, Violation


class NamedRefusal(errors.BadRequest):
    """A rule of the institution.

    Args:
        kind: Its name in the profile.
        reason: For callers, in Portuguese; used if the profile has no text of the institution's.
        rows: The affected members of the request.
    """

    def __init__(self, kind: str, reason: str, rows: Sequence[Violation] = ()) -> None:
        super().__init__(reason)
        self.rows = rows
        self.kind = kind


def make_face_form(profile: InstitutionProfile, group: str) -> RefusalForm:
    return RefusalForm(
        write=partial(_refuse, profile, group),
        record=None,
        media_type=profile.forms[profile.errors[group].form].media_type,
    )


def _refuse(profile: InstitutionProfile, group: str, error: errors.PixConnectError, request_id: str, now: datetime) -> Refused:
    rows = error.rows if isinstance(error, Violated | NamedRefusal) else ()
    traits = _find_traits(profile, group, error, rows)
    form = profile.forms[traits.form or profile.errors[group].form]
    reasons = "; ".join(f"{row.property}: {row.reason}" for row in rows)
    text = traits.text or reasons or (error.message if isinstance(error, NamedRefusal) else describe_refusal(error))
    # A wrong body is reported row by row; a refusal by state has its own name.
    malformed = profile.find_refusal(group, "BAD_REQUEST")
    shown = rows if traits.name == ("" if malformed is None else malformed.name) else ()
    return Refused(
        status=traits.status,
        content=msgspec.json.encode(_fill(form, traits, text, shown, now)),
        headers=_list_headers(profile, traits, error),
        media_type=form.media_type,
    )


def _list_headers(
    profile: InstitutionProfile, traits: RefusalTraits, error: errors.PixConnectError
) -> list[tuple[bytes, bytes]]:
    # Without tokens, no header asks for one.
    hidden = () if profile.token.path else (b"www-authenticate",)
    usual = [header for header in envelope.error_headers(error) if header[0] not in hidden]
    policy = error.policy if isinstance(error, errors.RateLimited) else None
    size = 0 if policy is None else policy.tokens_max
    return usual + [(name.encode(), template.format(size=size).encode()) for name, template in traits.headers.items()]


def _find_traits(
    profile: InstitutionProfile, group: str, error: errors.PixConnectError, rows: Sequence[Violation]
) -> RefusalTraits:
    properties = profile.errors[group].properties
    named = next((properties[row.property] for row in rows if row.property in properties), None)
    code = named or (error.kind if isinstance(error, NamedRefusal) else error.code)
    # An error without a name there gets the nearest one: the caller's mistake, or ours.
    otherwise = "BAD_REQUEST" if isinstance(error, errors.Refusal) else "INTERNAL_ERROR"
    found = profile.find_refusal(group, code) or profile.find_refusal(group, otherwise)
    return errors.require(found, f"the profile {profile.name} names no general refusal")


def _fill_violation(form: RefusalTemplate, row: Violation) -> Mapping[str, str]:
    member = row.property.rpartition(".")[2]
    words = {"property": row.property, "member": member, "reason": row.reason, "value": row.value or ""}
    filled = {name: template.format_map(words) for name, template in form.violation.items()}
    return {name: text for name, text in filled.items() if text}


def _fill(
    form: RefusalTemplate, traits: RefusalTraits, text: str, rows: Sequence[Violation], now: datetime
) -> Mapping[str, object]:
    words = {"name": traits.name, "text": text, "title": traits.text or traits.name}
    words["timestamp"] = now.astimezone(SAO_PAULO).isoformat(timespec="milliseconds")
    violations = [_fill_violation(form, row) for row in rows]
    values: dict[str, object] = {
        "{status}": traits.status,
        "{violations}": violations or None,
        "{messages}": [{"message": text}],
        "{null}": msgspec.Raw(b"null"),
    }
    filled = {
        member: values[template] if template in values else template.format_map(words) for member, template in form.body.items()
    }
    return {member: value for member, value in filled.items() if value is not None}
