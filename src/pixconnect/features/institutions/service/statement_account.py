"""Finds an account's statements in a file, and whether an operator has confirmed that form of file.

An operator's look at the first file of a form shows how it names the account. Until then nothing of it is recorded.

A file's format is detected by its contents: file names prove little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final, cast

from msgspec import Struct, structs

from pixconnect.features.institutions.profiles.account_traits import BalanceMeaning
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import ItemGroup
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX
from pixconnect.features.institutions.rules.special_line import (
    find_stated_change,
    is_about_block,
    is_own_investment,
    join_blocks,
)
from pixconnect.features.institutions.rules.unmatched import SET_ASIDE
from pixconnect.features.institutions.statement_files import FORMATS, statement_file
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount, find_difference, merge
from pixconnect.features.institutions.statement_files.statement_file import (
    FileSource,
    InvalidStatement,
    StatedBalance,
    StatementFile,
    choose_statements,
)
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as file_store
from pixconnect.kernel.flows.context import Operator
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.pool import Connection

DAYS_MAX: Final = 400  # maximum length of a statement
YEARS: Final = range(2000, 3000)
_START_LENGTH: Final = 4096


class ChosenStatements(Struct, frozen=True, kw_only=True):
    statements: Sequence[StatementFile]  # the account's, in the order of their days
    others: Sequence[StatementAccount]  # further accounts of the file, which are not read
    is_own: bool
    is_confirmed: bool

    @property
    def first(self) -> StatementFile:
        return self.statements[0]


def parse_file(content: bytes) -> StatementFile:
    try:
        file = read_statement_file(content)
    except InvalidStatement as error:
        raise errors.BadRequest(f"file: {error}") from error
    for one in (file, *file.others):
        if (one.last_on - one.first_on).days >= DAYS_MAX:
            raise errors.BadRequest(f"file: it speaks of more than {DAYS_MAX} days")
        for day in (one.first_on, one.last_on, *(item.day for item in one.items)):
            if day.year not in YEARS:
                raise errors.BadRequest(f"file: {day} is outside of the years {YEARS[0]} to {YEARS[-1]}")
    return file


def read_statement_file(content: bytes) -> StatementFile:
    """Read a file of any format; ``InvalidStatement`` if it is no whole one."""
    statement_file.check_content(content)
    start = content[:_START_LENGTH].removeprefix(b"\xef\xbb\xbf").lstrip()
    read = next((form.read for form in FORMATS if form.start.search(start)), None)
    if read is None:
        raise InvalidStatement(f"it has none of these formats: {', '.join(form.name for form in FORMATS)}")
    try:
        return read(content)
    except OverflowError:
        raise InvalidStatement("it has a day that no calendar can compute with, such as one of the year 1 or 9999") from None


async def choose(connection: Connection, account: InstitutionAccount, file: StatementFile, *, is_own: bool) -> ChosenStatements:
    """Find the statements of an account in a file.

    Args:
        is_own: The institution wrote it, so no file from an operator contradicts it.

    Raises:
        BadRequest: The file is of another account, or more than one of its accounts may be meant.
    """
    sources = await file_store.list_sources(connection, account.id)
    # The institution's own files are certainly of the account.
    sources.sort(key=lambda source: (not source.is_own, source.format != file.format))
    known = merge([_read_known(account), *(source.account for source in sources if source.is_own or not is_own)])
    is_confirmed = any((source.format, source.is_own) == (file.format, is_own) for source in sources)
    try:
        statements = choose_statements(file, known, account.name)
    except InvalidStatement as error:
        raise errors.BadRequest(f"file: {error}") from error
    if is_confirmed and not known.type and statements[0].account.type == "savings":
        # Banks give a holder's savings the same number, and nobody has confirmed a file of them.
        difference = find_difference(statements[0].account, structs.replace(known, type="checking"), account.name)
        raise errors.BadRequest(f"file: {errors.require(difference, 'the types differ')}")
    statements = [await _begin(connection, account, one) for one in statements]
    accounts = dict.fromkeys(one.account for one in (file, *file.others))
    return ChosenStatements(
        statements=statements,
        others=[one for one in accounts if one != statements[0].account],
        is_own=is_own,
        is_confirmed=is_confirmed,
    )


async def _begin(connection: Connection, account: InstitutionAccount, file: StatementFile) -> StatementFile:
    """Return the file beginning a day later if its opening balance is recorded as the end of that day."""
    opening, on = file.opening, file.first_on
    days = await day_store.list_days(connection, account.id, on, on) if file.may_begin_later else []
    if opening is None or not days or days[0].closing_cents != opening.cents:
        return file
    recorded = [item for item in await item_store.list_days(connection, account.id, on, on) if item.waits not in SET_ASIDE]
    listed = Counter(item.signed_cents for item in file.items if item.day == on)
    # A day that ends with the balance of its beginning is in the file if all of its lines are.
    if days[0].opening_cents == opening.cents and not Counter(item.signed_cents for item in recorded) - listed:
        return file
    first_on = on + timedelta(days=1)
    notes = (*file.notes, *statement_file.note_outside((first_on, file.last_on), file.items))
    return structs.replace(file, first_on=first_on, opening=StatedBalance(cents=opening.cents, on=on), notes=notes)


def _read_known(account: InstitutionAccount) -> StatementAccount:
    names = ("bank", "branch", "account_type", "agreement")
    bank, branch, kind, agreement = (str(account.options.get(name, "")) for name in names)
    # A counterpart can be anything, with the name of a bank.
    if not bank and account.environment != "counterpart":
        profile = read_profile(account.profile_name)
        bank = f"{profile.ispb}/{profile.compe}"
    return StatementAccount(bank=bank, branch=branch, number=account.account, type=kind, agreement=agreement)


async def confirm(context: Operator, connection: Connection, account: InstitutionAccount, chosen: ChosenStatements) -> None:
    """Record that an operator has confirmed the first file of this form; later ones must be of the same account."""
    source = FileSource(
        institution_id=account.id,
        format=chosen.first.format,
        is_own=chosen.is_own,
        account=chosen.first.account,
        confirmed_at=context.clock.now(),
        confirmed_by=context.operator,
    )
    # The first confirmation stands.
    await file_store.SOURCE.insert_new(connection, source)


def find_balance_meaning(account: InstitutionAccount) -> BalanceMeaning:
    """Return the meaning of the institution's balances, by the account's option or else by the profile."""
    return cast("BalanceMeaning", account.options.get("balance", read_profile(account.profile_name).account.balance))


async def sum_days(
    connection: Connection, account: InstitutionAccount, first_on: date, last_on: date
) -> tuple[Sequence[ItemGroup], frozenset[date]]:
    """Sum the changes of the reported balances on each day; also return the days on which some are unknown."""
    has_investments = find_balance_meaning(account) == "with_investments"
    groups = await item_store.sum_days(connection, account.id, first_on, last_on, has_investments=has_investments)
    if not has_investments:
        return groups, frozenset()
    # The opening day's lines before the opening balance cancel, each with its whole amount.
    without = (*SET_ASIDE, "before_opening")
    others = await item_store.list_unjoined_others(connection, account.id, first_on, last_on, without)
    own = [item for item in others if is_own_investment(item)]
    groups += [
        ItemGroup(
            day=item.day,
            direction=item.direction,
            kind=item.kind,
            is_return=False,
            amount_cents=-item.amount_cents,
            items_count=0,
        )
        for item in own
    ]
    return groups, frozenset(item.day for item in own if find_stated_change(item, has_investments=True) is None)


async def add_blocked(connection: Connection, account: InstitutionAccount, file: StatementFile) -> StatementFile:
    """Return the file with the meaning of its balances; if these omit blocked money, it is added."""
    meaning = find_balance_meaning(account)
    if meaning != "available":
        return structs.replace(file, has_investments=meaning == "with_investments")

    since = file.first_on - timedelta(days=DAYS_APART_MAX)
    blocks = await books_store.list_blocks(connection, account.id, datetime.combine(since, time(0), SAO_PAULO))
    recorded = await books_store.list_about_blocks(connection, account.id, since, file.last_on)
    # Those that no block has yet: recorded ones that wait for further parts or for their block's report, and the file's own.
    left: list[InstitutionItem] = [item for item in recorded if item.joined_kind != "block"]
    known = Counter((item.day, item.signed_cents) for item in recorded)
    for item in filter(is_about_block, file.items):
        known[item.day, item.signed_cents] -= 1
        if known[item.day, item.signed_cents] < 0:
            left.append(item)

    async def add(balance: StatedBalance | None) -> StatedBalance | None:
        if balance is None:
            return None
        end = datetime.combine(balance.on + timedelta(days=1), time(0), SAO_PAULO)
        moved = {item.item_id: -item.signed_cents for item in left if item.day <= balance.on}
        joins, parts = join_blocks([item for item in left if item.day <= balance.on], blocks)
        debited = Counter[int]()
        for join in joins:
            debited[int(join.key[1])] += moved[join.item_id]
        cents = await books_store.read_blocked(connection, account.id, end, [*debited], [*debited.values()])
        parts_cents = sum(moved[item_id] for item_id in parts)
        return structs.replace(balance, cents=balance.cents + cents - (parts_cents if 0 < parts_cents <= cents else 0))

    return structs.replace(file, opening=await add(file.opening), closing=await add(file.closing))
