"""What a rehearsal found: steps beside what was expected of them, and what answers have that the profile has not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast

from msgspec import Struct

from pixconnect.domain.institutions.recording import RecordedExchange, RehearsalRecording
from pixconnect.domain.profiles.profile import InstitutionProfile, OperationTraits

_OPERATIONS: Final = (
    ("cob.criar_com_txid", "PUT", "/cob/{txid}", 201),
    ("cob.consultar", "GET", "/cob/{txid}", 200),
    ("cob.revisar", "PATCH", "/cob/{txid}", 200),
    ("pix.listar", "GET", "/pix", 200),
    ("pix.consultar", "GET", "/pix/{e2eid}", 200),
    ("devolucao.solicitar", "PUT", "/pix/{e2eid}/devolucao/{id}", 201),
    ("devolucao.consultar", "GET", "/pix/{e2eid}/devolucao/{id}", 200),
)
"""Of the central bank's API, with the status of a success."""
_NAMING: Final = ("type", "nome")
"""Members that name a refusal."""


class RehearsedStep(Struct, frozen=True, kw_only=True):
    step: str
    outcome: Literal["as expected", "differs", "not tried"]
    text: str = ""


class Rehearsal(Struct, frozen=True, kw_only=True):
    steps: Sequence[RehearsedStep]
    recording: RehearsalRecording

    @property
    def differs_count(self) -> int:
        return sum(step.outcome == "differs" for step in self.steps)


def judge_exchanges(profile: InstitutionProfile, exchanges: Sequence[RecordedExchange]) -> list[RehearsedStep]:
    """What the answers have otherwise than the profile: statuses, names of refusals, members; each once."""
    told = [
        RehearsedStep(step=f"{exchange.method} {_name_path(profile, exchange)}", outcome="differs", text=text)
        for exchange in exchanges
        for text in _judge(profile, exchange)
    ]
    return list(dict.fromkeys(told))


def is_of_path(template: str, path: str) -> bool:
    """Whether a path is one of a template, in which names are in braces.

    Example:
        >>> is_of_path("/cob/{txid}", "/cob/abc"), is_of_path("/cob/{txid}", "/cob/abc/def")
        (True, False)
    """
    parts = re.split(r"\{[^}]*\}", template)
    return re.fullmatch("[^/]+".join(map(re.escape, parts)), path) is not None


def _judge(profile: InstitutionProfile, exchange: RecordedExchange) -> Iterator[str]:
    if exchange.status is None:
        return
    members = _as_members(exchange.content)
    if exchange.status >= 400:
        for member in _NAMING:
            name = members.get(member)
            if isinstance(name, str) and (short := name.rpartition("/")[2]) not in _known_names(profile):
                yield f"{exchange.status} is named {short}, which the profile has not"
        return
    found = _find_operation(profile, exchange)
    if found is None:
        return
    _, traits, usual = found
    expected = traits.status or usual
    if exchange.status != expected:
        yield f"answers {exchange.status}, where the profile has {expected}"
    for path in traits.omits:
        # What a list leaves out is said with the list's name before it.
        if _has(members, path.split(".")):
            yield f"has {path}, which the profile leaves out"


def _known_names(profile: InstitutionProfile) -> frozenset[str]:
    traits = profile.account
    certain = (*traits.opening_refusals, *traits.revision_refusals, *traits.refund_refusals)
    groups = [refusal.name for group in profile.errors.values() for refusal in group.codes.values()]
    return frozenset(
        name.rpartition("/")[2] for name in (*groups, *traits.absent, *(refusal.name for refusal in certain))
    )


def _find_operation(profile: InstitutionProfile, exchange: RecordedExchange) -> tuple[str, OperationTraits, int] | None:
    for name, method, path, usual in _OPERATIONS:
        traits = profile.standard.operations.get(name)
        if traits is None or method != exchange.method:
            continue
        template = traits.path or profile.standard.prefix + path
        if is_of_path(template, exchange.path) or is_of_path(_place_in_tests(profile, template), exchange.path):
            return template, traits, usual
    return None


def _place_in_tests(profile: InstitutionProfile, template: str) -> str:
    for usual, there in profile.account.homologation_paths.items():
        if template.startswith(usual):
            return there + template.removeprefix(usual)
    return template


def _name_path(profile: InstitutionProfile, exchange: RecordedExchange) -> str:
    found = _find_operation(profile, exchange)
    return exchange.path if found is None else found[0]


def _has(value: object, path: Sequence[str]) -> bool:
    if isinstance(value, list):
        return any(_has(each, path) for each in cast("list[object]", value))
    if not path:
        return True
    members = _as_members(value)
    return path[0] in members and _has(members[path[0]], path[1:])


def _as_members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
