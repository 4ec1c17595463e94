"""Functions for templates: formatting of values, and the symbols of states."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, cast

import msgspec
from markupsafe import Markup, escape

from pixconnect.doors.console.language import Language
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.money import show_reais
from pixconnect.kernel.rules.tax_id import mask_cpf, write_tax_id
from pixconnect.platform.base.clock import SAO_PAULO

Tone = Literal["good", "going", "bad", "over", "back", "dot"]

_WORDS: Final[Mapping[Tone, str]] = {
    "good": "APPROVED CONFIRMED delivered active enabled fine done released joined proof_ended recorded_now recorded_before",
    "going": "PENDING PROCESSING pending running open answered block_open provisional announced day_not_over proof_running",
    "bad": "ERROR failed disabled failing closed_with_cases unmatched perhaps_balance perhaps_known contradicts changed "
    "perhaps_text separated not_yet_read order_unknown could_be_ours "
    "opening_day proof_wrong recorded_no",
    "over": "EXPIRED CANCELLED REMOVED_BY_RECEIVER REMOVED_BY_PSP inactive idle cancelled block_ended closed "
    "before_opening balance_line same_line withdrawn proof_stopped",
    "back": "RETURNED taken",
}
TONES: Final[Mapping[str, Tone]] = {word: tone for tone, words in _WORDS.items() for word in words.split()}
"""The tone of a state, by its word: one symbol and one colour each, beside the word."""

# Drawn on 16 by 16. Each tone has its own shape, so that colour is not needed.
_SHAPES: Final = dict[str, str](
    good='<circle cx="8" cy="8" r="7"/><path class="mark" d="M4.5 8.4l2.3 2.3 4.7-5.2"/>',
    going='<circle class="ring" cx="8" cy="8" r="6"/><path d="M8 2a6 6 0 0 1 0 12z"/>',
    bad='<path d="M8 .8l7.2 7.2L8 15.2.8 8z"/><path class="mark" d="M8 4.6v4M8 11.2v.2"/>',
    over='<circle class="ring" cx="8" cy="8" r="6"/><path class="line" d="M5 8h6"/>',
    dot='<circle cx="8" cy="8" r="4"/>',
    # One line that turns back.
    back='<path class="line" d="M10.5 11.8H5.5a3 3 0 0 1 0-6H13M10.5 3l3 2.8-3 2.8"/>',
)


def tone(word: str) -> Tone:
    return TONES.get(word, "over")


def shape(wanted: Tone) -> Markup:
    """Return the drawing of a tone; the word beside it names the state."""
    drawn = Markup(_SHAPES[wanted])  # noqa: S704 - our own table above
    return Markup('<svg class="shape {}" viewBox="0 0 16 16" aria-hidden="true">{}</svg>').format(wanted, drawn)


_MADE_HERE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[0-9a-f]{32}|(?:theirs|auto):.*|console-[0-9]+-[0-9]+"
)


def own_name(external_id: str | None) -> str:
    """A caller's own name for a thing; empty where the service or the client made it, which tells people nothing."""
    return "" if external_id is None or _MADE_HERE.fullmatch(external_id) else external_id


def known_tax_id(tax_id: str) -> str:
    """A CPF or CNPJ as people write it; empty where the institution reported only zeros."""
    return write_tax_id(tax_id.strip("0") and tax_id)


def masked(tax_id: str) -> str:
    """A CPF without its ends, a CNPJ in full; empty where the institution reported only zeros."""
    return mask_cpf(tax_id) if re.fullmatch("[0-9]{11}", tax_id) and tax_id.strip("0") else known_tax_id(tax_id)


def last_day(charge: Charge) -> date:
    """Return the last day on which a charge with a due date may be paid: it ends at the midnight after it."""
    return (charge.expires_at - timedelta(microseconds=1)).astimezone(SAO_PAULO).date()


def as_json(value: object) -> str:
    """Return a record as JSON for people; bytes are left out."""
    plain = msgspec.to_builtins(value, builtin_types=(datetime, bytes))
    return msgspec.json.format(msgspec.json.encode(_readable(plain)), indent=2).decode()


def pretty(text: str) -> str:
    """Indent JSON; any other text stays as it is."""
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


class _Payload(msgspec.Struct):
    amount: int | None = None
    external_id: str | None = None
    end_to_end_id: str | None = None
    return_identification: str | None = None


class _Body(msgspec.Struct):
    payload: _Payload


def event_payload(body: str) -> _Payload:
    """An event's recognizable facts: its amount and names; those missing in the event are omitted."""
    try:
        return msgspec.json.decode(body, type=_Body).payload
    except msgspec.DecodeError:
        return _Payload()


CENTS: Final = re.compile(r"\b([0-9]{1,18})(?= cents\b| to (?:the )?[0-9]{1,18} cents\b)(?: cents\b)?", re.ASCII)


def in_reais(text: str) -> str:
    """A text of the API, with its amounts in cents, for people, who read reais."""
    return CENTS.sub(lambda found: show_reais(int(found[1])), text)


def machine_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _readable(value: object) -> object:
    if isinstance(value, dict):
        items = cast("Mapping[str, object]", value)
        return {name: _readable(each) for name, each in items.items() if not isinstance(each, bytes)}
    if isinstance(value, list | tuple):
        return [_readable(each) for each in cast("Sequence[object]", value)]
    return machine_time(value) if isinstance(value, datetime) else value


def of_language(language: Language) -> dict[str, Any]:
    """Texts that differ by language."""

    def when(at: datetime | None) -> Markup:
        if at is None:
            return Markup("-")
        return Markup('<time datetime="{}">{}</time>').format(machine_time(at), language.instant(at))

    def micro(us: int) -> str:
        return language.duration(timedelta(microseconds=us))

    return dict(
        amount=language.amount,
        number=language.number,
        instant=language.instant,
        when=when,
        clock_time=language.clock_time,
        day=language.day,
        duration=language.duration,
        micro=micro,
    )


GLOBALS: Final[Mapping[str, Any]] = dict(
    one_second=timedelta(seconds=1),
    last_day=last_day,
    tax_id=known_tax_id,
    unknown_party=UNKNOWN_PARTY,
    masked=masked,
    tone=tone,
    shape=shape,
    own_name=own_name,
    as_json=as_json,
    pretty=pretty,
    event_payload=event_payload,
    machine_time=machine_time,
    in_reais=in_reais,
    escape=escape,
)


_PICTURES_MAX: Final = 128


@lru_cache(_PICTURES_MAX)
def picture_of(draw_qr: Callable[[str], bytes], br_code: str) -> str:
    """Return a QR code as a URL; a page that is followed requests the same one each time."""
    return f"data:image/png;base64,{base64.b64encode(draw_qr(br_code)).decode()}"
