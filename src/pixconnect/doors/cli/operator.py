"""Verbs of operators, which call flows on the database and leave a row in the audit.

``pixconnect holder`` and ``key`` open accounts, limit, block and disable holders, and manage their Pix keys; ``audit`` prints
operators' acts.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import UNSET, UnsetType, structs

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.operating import HolderId, TheHolder
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER, read_limit
from pixconnect.kernel.feature import list_verbs, read_place
from pixconnect.kernel.flows import audit as audit_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.holder import HolderChanges, NewHolder, SetLimits
from pixconnect.kernel.flows.source import find_accounts
from pixconnect.kernel.rules.holder import AccountType, Holder, KeyType, PixKey
from pixconnect.kernel.rules.ledger import Funds
from pixconnect.kernel.rules.limit import LIMIT_COLUMNS, find_night_begin, read_limits
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.platform.adapters.system import SystemClock

YesNo = Literal["true", "false"]
Limit = Annotated[int | Literal["none"], Parameter(converter=read_limit)]
_FUNDS: Final = "available_funds reserved_funds blocked_funds current_funds deficit"
_LIMITS: Final = tuple(column.removesuffix("_cents") for column in SetLimits.__struct_fields__)
HOLDER_MONEY: Final = frozenset((*_FUNDS.split(), *_LIMITS, *map("wanted_{}".format, _LIMITS), "approve_above"))
"""Its amounts, shown to people as reais."""

app = App(name="holder", help="Account holders.")
for _verb in list_verbs("below holder"):
    # At once: of one that is imported later, help shows neither the docstring nor the parameters apart.
    app.command(read_place(_verb.place), name=_verb.name)


@app.command
def create(  # noqa: PLR0913  each is an option on the command line
    *,
    name: str,
    tax_id: str,
    account_number: str,
    branch: str = "0001",
    city: str = "Sao Paulo",
    street: str | None = None,
    state: str | None = None,
    postal_code: str | None = None,
    account_type: AccountType = "TRANSACTIONAL",
    transfer_limit: Limit | None = None,
    day_limit: Limit | None = None,
    night_limit: Limit | None = None,
    no_limits: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    institution: str | None = None,
    json: Json = False,
) -> None:
    """Open an empty account; prints the holder_id that the other verbs need.

    In live mode each of the three limits must be named, or `--no-limits`; in the sandbox one that is not named is none.

    Args:
        name: The owner's name.
        tax_id: The owner's CPF or CNPJ, with its mask or without.
        account_number: 1 to 20 digits or capital letters, not yet taken.
        branch: 1 to 4 digits.
        city: The owner's city, printed in QR codes.
        street: The owner's street and number; with state and postal code, so that charges with a due date can be made.
        state: The owner's state, by its two letters.
        postal_code: The owner's CEP.
        account_type: The kind of account.
        transfer_limit: One outgoing transfer at most, in cents.
        day_limit: Outgoing transfers of one day in Sao Paulo at most, in cents.
        night_limit: Outgoing transfers of one night (20:00 to 06:00 in Sao Paulo) at most, in cents.
        no_limits: No limits but those that are named.
        institution: The account at an institution on which its money lies; by default none.
    """
    # UNSET leaves the decision to the use case: it refuses an unnamed limit in live mode.
    unnamed = None if no_limits else UNSET
    new = NewHolder(
        name=name,
        tax_id=tax_id,
        branch=branch,
        account_number=account_number,
        city=city,
        street=street,
        state=state,
        postal_code=postal_code,
        account_type=account_type,
        transfer_limit_cents=unnamed if transfer_limit is None else _limit(transfer_limit),
        day_limit_cents=unnamed if day_limit is None else _limit(day_limit),
        night_limit_cents=unnamed if night_limit is None else _limit(night_limit),
    )
    if institution is None:
        made = operating.run(holder_usecases.create_holder, new)
    else:
        made = operating.run(find_accounts().create_holder, new, institution)
    output.show(describe_holder(made), as_json=json, money=HOLDER_MONEY)


@app.command
def show(*, holder_id: TheHolder, json: Json = False) -> None:
    """Print a holder: account, flags, limits, higher limits that wait, and its balance."""
    holder, funds = operating.run(holder_usecases.read_holder_with_funds, holder_id)
    wanted = operating.run(holder_usecases.find_waiting, holder_id)
    output.show(describe_holder(holder) | _shown_waiting(wanted) | _shown_funds(funds), as_json=json, money=HOLDER_MONEY)


@app.command(name="list")
def list_holders(
    *,
    after: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=0))] = 0,
    limit: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=10_000), show_default=True)] = 100,
    json: Json = False,
) -> None:
    """Print holders by their ids, with their balances.

    Args:
        after: Begin after this holder_id: the last one printed leads to the next page.
        limit: The most holders to print.
    """
    found = operating.run(holder_usecases.list_holders, after, limit)
    shown = [
        output.pick(holder, "holder_id=id name tax_id account_number")
        | _shown_funds(funds)
        | output.pick(holder, "disabled_at")
        for holder, funds in found
    ]
    output.show_list("holders", shown, as_json=json, money=HOLDER_MONEY)


@app.command(name="set")
def change(  # noqa: PLR0913  as above
    *,
    holder_id: HolderId,
    able_to_deposit: YesNo | None = None,
    able_to_withdraw: YesNo | None = None,
    able_to_lend: YesNo | None = None,
    transfer_limit: Limit | None = None,
    day_limit: Limit | None = None,
    night_limit: Limit | None = None,
    night_begins: Annotated[int | None, WHOLE_NUMBER] = None,
    approve_above: Limit | None = None,
    approve_new_payees: YesNo | None = None,
    street: str | None = None,
    city: str | None = None,
    state: str | None = None,
    postal_code: str | None = None,
    institution: str | None = None,
    json: Json = False,
) -> None:
    """Change flags, limits, required approvals, the address, or the account; the rest stays unchanged.

    In live mode a higher limit waits for 24 hours, or for `proposal confirm` by another operator; fewer approvals wait for it.

    Args:
        holder_id: The holder.
        able_to_deposit: Whether money may come in.
        able_to_withdraw: Whether money may go out.
        able_to_lend: Shown in the balance.
        transfer_limit: One outgoing transfer at most, in cents.
        day_limit: Outgoing transfers of one day in Sao Paulo at most, in cents.
        night_limit: Outgoing transfers of one night (20:00 or 22:00 to 06:00 in Sao Paulo) at most, in cents.
        night_begins: The hour in Sao Paulo at which that night begins: 20 or 22.
        approve_above: Transfers above this, in cents, wait for `pixconnect operator transfer approve`; `none` is the default.
        approve_new_payees: Whether the first transfer to each new payee waits too.
        street: The street and number of the address, which charges with a due date show.
        city: The city; QR codes that were made before keep theirs.
        state: The state, by its two letters.
        postal_code: The CEP.
        institution: The account that holds its money from now on; the holder must never have had money, payments or charges.
    """
    if institution is not None:
        operating.run(find_accounts().move_holder, holder_id, institution)
    changes = HolderChanges(
        may_deposit=_flag(able_to_deposit),
        may_withdraw=_flag(able_to_withdraw),
        may_lend=_flag(able_to_lend),
        transfer_limit_cents=_limit(transfer_limit),
        day_limit_cents=_limit(day_limit),
        night_limit_cents=_limit(night_limit),
        night_begins_h=UNSET if night_begins is None else night_begins,
        approve_above_cents=_limit(approve_above),
        approve_new_payees=_flag(approve_new_payees),
        street=UNSET if street is None else street,
        city=UNSET if city is None else city,
        state=UNSET if state is None else state,
        postal_code=UNSET if postal_code is None else postal_code,
    )
    _change(holder_id, changes, as_json=json)
    if {institution, street, city, state, postal_code} != {None}:  # every process caches these, unlike limits
        operating.wait_until_in_force()


@app.command
def disable(*, holder_id: TheHolder, json: Json = False) -> None:
    """Disable a holder and all its clients, including issued tokens. When it returns, this holds on every process."""
    _change(holder_id, HolderChanges(is_disabled=True), as_json=json)
    operating.wait_until_in_force()


@app.command
def enable(*, holder_id: TheHolder, json: Json = False) -> None:
    """Enable a disabled holder and its clients again."""
    _change(holder_id, HolderChanges(is_disabled=False), as_json=json)


def _change(holder_id: int, changes: HolderChanges, *, as_json: bool) -> None:
    holder = operating.run(holder_usecases.set_holder, holder_id, changes)
    wanted = operating.run(holder_usecases.find_waiting, holder_id)
    output.show(describe_holder(holder) | _shown_waiting(wanted), as_json=as_json, money=HOLDER_MONEY)


# An option with a value instead of a pair of switches: left out, it changes nothing.
def _flag(text: YesNo | None) -> bool | UnsetType:
    return UNSET if text is None else text == "true"


def _limit(limit: Limit | None) -> int | UnsetType | None:
    return UNSET if limit is None else None if limit == "none" else limit


def describe_holder(holder: Holder) -> output.Shown:
    # Flags have the names of callers' balance.
    flags = "able_to_deposit=may_deposit able_to_withdraw=may_withdraw able_to_lend=may_lend"
    limits = " ".join(f"{name}={name}_cents" for name in _LIMITS)
    night_begins = find_night_begin(is_late=holder.night_begins_late, now=SystemClock().real_now())
    return {
        **output.pick(holder, "holder_id=id name tax_id street city state postal_code"),
        **output.pick(holder, f"branch account_number account_type {flags} {limits}"),
        "night_begins": night_begins,
        **output.pick(holder, "approve_above=approve_above_cents approve_new_payees"),
        **output.pick(holder, "institution_id successor_id disabled_at created_at"),
    }


def _shown_funds(funds: Funds) -> output.Shown:
    # As in callers' balance, including blocked money and deficits.
    current_cents = funds.available_cents + funds.reserved_cents + funds.blocked_cents
    return {
        **output.pick(funds, "available_funds=available_cents reserved_funds=reserved_cents blocked_funds=blocked_cents"),
        "current_funds": current_cents,
        "deficit": funds.deficit_cents,
    }


def _shown_waiting(waiting: Mapping[str, Proposal]) -> output.Shown:
    fewer = waiting.get("approvals")
    shown: output.Shown = {} if fewer is None else dict(wanted_approvals=fewer.text)
    if (wanted := waiting.get("limits")) is None:
        return shown
    limits = read_limits(wanted.contents)
    amounts = zip(LIMIT_COLUMNS, structs.astuple(limits), strict=True)
    # The second operator has to see a removed limit too.
    return shown | {
        **{
            f"wanted_{column.removesuffix('_cents')}": "none" if value is None else value
            for column, value in amounts
            if column in SetLimits.__struct_fields__
        },
        "wanted_night_begins": find_night_begin(is_late=limits.night_begins_late, now=wanted.proposed_at),
        **output.pick(wanted, "wanted_by=proposed_by wanted_limits_act_at=acts_at wanted_limits_code=code"),
    }


key_app = App(name="key", help="Manage holders' Pix keys.")


@key_app.command(name="add")
def add_key(*, holder_id: HolderId, key_type: KeyType, key: str | None = None, json: Json = False) -> None:
    """Register a Pix key that leads to a holder; prints the key as it is stored.

    Args:
        holder_id: The holder that the key leads to.
        key_type: Its type.
        key: The key; an EVP is generated if you leave it out.
    """
    added = operating.run(holder_usecases.add_pix_key, holder_id, key_type, key)
    output.show({**_shown_key(added), "holder_id": holder_id}, as_json=json)


@key_app.command(name="remove")
def remove_key(*, holder_id: HolderId, key: str, json: Json = False) -> None:
    """Remove a Pix key of a holder; prints the key. When it returns, no process resolves the key.

    Charges for it can no longer be paid: the service refuses a payment that the rail reports. This holder may get it back at
    once. Another one may get it a minute later; if this holder's money is on an account at an institution, once a whole reading
    of the account has ended that began 72 hours after the removal.

    Args:
        holder_id: The holder that the key leads to.
        key: The key, with or without punctuation.
    """
    removed = operating.run(holder_usecases.remove_pix_key, holder_id, key)
    output.show({**_shown_key(removed), "holder_id": holder_id}, as_json=json)
    operating.wait_until_in_force()


@key_app.command(name="list")
def list_keys(*, holder_id: TheHolder, json: Json = False) -> None:
    """Print a holder's keys, oldest first."""
    keys = operating.run(holder_usecases.list_pix_keys, holder_id)
    output.show_list("keys", [_shown_key(key) for key in keys], as_json=json)


def _shown_key(key: PixKey) -> output.Shown:
    return output.pick(key, "key key_type")


audit_app = App(name="audit", help="What operators did.")


@audit_app.command(name="list")
def list_entries(
    *,
    limit: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=10_000), show_default=True)] = 100,
    subject: str | None = None,
    by: str | None = None,
    before: Annotated[int | None, WHOLE_NUMBER] = None,
    json: Json = False,
) -> None:
    """Print operators' acts, newest first: operator, time, verb, subject, and the state before and after.

    Args:
        limit: The most rows to print.
        subject: Only those on this, as the list names it: `holder 2`.
        by: Only those of this operator, as the list names them: `console maria`.
        before: Only those with a smaller id: the last one of the list before.
    """
    subjects = None if subject is None else [subject]
    found = operating.run(audit_usecases.list_entries, before_id=before, subjects=subjects, by=by, count_max=limit + 1)
    columns = "id at operator login door verb subject before after request_id"
    output.show_list("entries", [output.pick(entry, columns) for entry in found[:limit]], as_json=json)
    if len(found) > limit:
        terminal.notice(f"more exist: --before {found[limit - 1].id}")
