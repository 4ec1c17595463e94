"""What Woovi is asked to send, and what it says of what it has sent: amounts in cents, the name ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pixconnect.adapters.institutions.message import as_list, as_members
from pixconnect.adapters.institutions.payee_records import find_first, find_listed_payee
from pixconnect.adapters.institutions.wire import (
    Malformed,
    find_free_text,
    find_instant,
    find_network_name,
    find_text,
    find_whole_key,
    take_cents,
    take_end_to_end_id,
    take_members,
    take_text,
)
from pixconnect.domain.institutions.rail_memory import OutgoingPix, SentPix
from pixconnect.domain.money import reject_code
from pixconnect.domain.money.holder import KeyType, Party
from pixconnect.domain.money.pix_key import KEY_LENGTH_MAX
from pixconnect.domain.money.tax_id import is_cpf

_NAME_MAX: Final = 200
_REASON_MAX: Final = 500
_CODE_LENGTH: Final = 4
_ISPB_LENGTH: Final = 8
_ACCOUNT_TYPES: Final = dict(CHECKING="CACC", SAVINGS="SVGS", SALARY="SLRY", TRANSACTIONAL="TRAN")
_KEY_TYPES: Final = dict[str, KeyType](CPF="CPF", CNPJ="CNPJ", EMAIL="EMAIL", PHONE="PHONE", RANDOM="EVP", EVP="EVP")
_Status = Literal["under_way", "settled", "refused"]
_ENDED: Final = dict[str, _Status](CONFIRMED="settled", FAILED="refused", REJECTED="refused", DENIED="refused")
"""Whatever other word there is, the payment may still be made: one that is CREATED by whoever approves it."""
_REJECT_CODES: Final = dict(
    ACCOUNT_NOT_FOUND="AC03", PIX_KEY_INFO_NOT_FOUND="AC03", INVALID_PIX_KEY="CH16", ACCOUNT_TRANSACTION_BLOCKED_BY_MED="AC06"
)  # fmt: skip
"""Of its own codes those that say the same as one of the scheme's."""


def write_cents_send(pix: OutgoingPix, *, approves: bool, has_text_psp: bool = False) -> dict[str, object] | None:
    """The body; ``None`` where it has no form for such an account."""
    payee = pix.payee
    common: dict[str, object] = dict(value=pix.amount_cents, correlationID=pix.name, autoApprove=approves)
    said = {"comment": pix.payer_message} if pix.payer_message else {}
    if pix.br_code is not None:
        # With the amount beside it no more is paid, whatever the code asks for by then.
        return dict(type="QR_CODE", qrCode=pix.br_code, **common, **said)
    if pix.is_by_key:
        kind = "RANDOM" if payee.key_type == "EVP" else payee.key_type
        return dict(type="PIX_KEY", destinationAlias=payee.key, destinationAliasType=kind, **common, **said)
    account_type = _ACCOUNT_TYPES.get(payee.account_type)
    if account_type is None:
        return None
    # A payment to an account has no comment in the document, whose examples have an object where its schema has a text.
    psp = payee.ispb if has_text_psp else {"id": payee.ispb}
    account = dict(account=payee.account_number, branch=payee.branch, accountType=account_type)
    return dict(type="MANUAL", psp=psp, holder=_write_owner(payee), account=account, **common)


def _write_owner(payee: Party) -> dict[str, object]:
    kind = "BR:CPF" if is_cpf(payee.tax_id) else "BR:CNPJ"
    return dict(name=payee.name, taxID=dict(type=kind, taxID=payee.tax_id))


def decode_cents_sent(members: Mapping[str, object], name: str, *, is_question: bool = True) -> SentPix:
    """A payment as it is; ``Malformed`` where anything of it cannot be relied on.

    Args:
        members: Of the answer.
        name: Ours, which it must have.
        is_question: Otherwise it is what a call that sends answered, which has taken it and says no more than that.
    """
    told = take_members(members, "payment")
    if take_text(told, "correlationID", _NAME_MAX) != name:
        raise Malformed("correlationID is that of another payment")
    moved = as_members(members.get("transaction")) or {}
    word = take_text(told, "status", 60)
    status: _Status = _ENDED.get(word, "under_way") if is_question else "under_way"
    return SentPix(
        name=name,
        # It is there: what is not found from now on was removed by somebody.
        code=name,
        # Without it nobody could tell it from another's: what is paid must name it.
        end_to_end_id=take_end_to_end_id(moved, "endToEndId")
        if status == "settled"
        else find_network_name(moved, "endToEndId"),
        amount_cents=take_cents(told, "value"),
        status=status,
        settled_at=find_instant(moved, "time") if status == "settled" else None,
        payee=_find_payee(told, moved, as_members(members.get("destination")) or {}),
        # The other side of the movement says more of an account than the payment does.
        paid=find_listed_payee(find_first(members, "destination"), name="name", tax_id="taxID")
        if is_question
        else None,
        reason=_write_reason(word, members, moved) if status == "refused" else None,
        reject_code=_find_reject_code(members, moved) if status == "refused" else None,
    )


def is_created(members: Mapping[str, object]) -> bool:
    """Whether a payment waits for its approval."""
    return (as_members(members.get("payment")) or {}).get("status") == "CREATED"


def _find_payee(
    told: Mapping[str, object], moved: Mapping[str, object], destination: Mapping[str, object]
) -> str | None:
    """Whom it goes to, as ``name_payee`` says it, as far as that is told whole."""
    side = as_members(moved.get("creditParty")) or {}
    alias = _find_alias(told)
    if told.get("type") != "MANUAL" and told.get("account") is None:
        return alias or find_whole_key(destination, "pixKey")
    account = as_members(told.get("account")) or as_members(side.get("account")) or {}
    psp = told.get("psp") if told.get("psp") is not None else side.get("psp")
    ispb = (as_members(psp) or {}).get("id") if not isinstance(psp, str) else psp
    numbers = (find_free_text(account, "branch", 20), find_free_text(account, "account", 40))
    # An institution may be named by the shorter code of banks instead, which is no other one.
    if not isinstance(ispb, str) or len(ispb) != _ISPB_LENGTH or None in numbers:
        return None
    return "/".join([ispb, *("".join(each for each in number or "" if each.isalnum()) for number in numbers)])


def _find_alias(told: Mapping[str, object]) -> str | None:
    kind, alias = find_text(told, "destinationAliasType", 20), find_text(told, "destinationAlias", KEY_LENGTH_MAX)
    if kind == "PHONE" and not (alias or "").startswith("+"):
        # Without its plus a number with or without Brazil's code is one that could be read in two ways.
        return None
    return find_whole_key(told, "destinationAlias", _KEY_TYPES.get(kind or ""))


def _find_reject_code(members: Mapping[str, object], moved: Mapping[str, object]) -> str | None:
    """The scheme's reason; the text of the provider begins with it."""
    known = (find_free_text(moved, name, _REASON_MAX) for name in ("providerErrorCode", "providerRejectedReason"))
    codes = [text[:_CODE_LENGTH] for text in known if text is not None]
    own = find_free_text(as_members(members.get("error")) or {}, "code", 100)
    codes += [_REJECT_CODES[own]] if own in _REJECT_CODES else []
    return next((code for code in codes if code in reject_code.REASONS), None)


def _write_reason(word: str, members: Mapping[str, object], moved: Mapping[str, object]) -> str:
    error = as_members(members.get("error")) or {}
    said = [find_free_text(error, name, 200) for name in ("code", "description")]
    said.append(find_free_text(moved, "providerRejectedReason", 200))
    return " ".join([word, *filter(None, said)])[:_REASON_MAX]


def find_messages(members: Mapping[str, object]) -> str:
    """The texts of an error in the other form that it has: a list of messages."""
    rows = [as_members(row) or {} for row in as_list(members.get("errors")) or ()]
    said = (find_free_text(row, "message", 100) for row in rows)
    return ", ".join(filter(None, said))[:_REASON_MAX]


def find_sent_name(row: object) -> str | None:
    """The name of a payment of the list."""
    members = as_members(row) or {}
    name = (as_members(members.get("payment")) or {}).get("correlationID")
    return name if isinstance(name, str) else None


def has_more(members: Mapping[str, object], rows_count: int, read_count: int, limit: int) -> bool:
    """Whether a list goes on after a page: it says so, or how many there are; otherwise a page that is full is not the last."""
    page = as_members(members.get("pageInfo")) or {}
    goes_on, total = page.get("hasNextPage"), page.get("totalCount")
    if isinstance(goes_on, bool):
        return goes_on and rows_count > 0
    return total > read_count if type(total) is int else rows_count >= limit
