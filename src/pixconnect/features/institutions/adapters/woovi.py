"""An account at Woovi: charges by our name, as it makes the txid itself; Pix both ways in one list; refunds by name.

No text of its errors is conclusive, so no sent call is ever finally refused; and each changing call is sent once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.adapters import wire, woovi_records
from pixconnect.features.institutions.adapters.calls import Call, obtain
from pixconnect.features.institutions.adapters.message import LIST_MAX, Content, as_members
from pixconnect.features.institutions.adapters.standard import ANOTHER_CHARGE, ANOTHER_REFUND, ConnectedInstitution, split
from pixconnect.features.institutions.adapters.token import CallParts
from pixconnect.features.institutions.adapters.woovi_sender import OUTCOME_S, RESENT_FOR, SENDS, WooviSender, has_more
from pixconnect.features.institutions.profiles.profile import InstitutionProfile
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.platform.base.address_rules import URL_LENGTH_MAX
from pixconnect.platform.base.clock import format_milliseconds

_ROOT: Final = "/api/v1"
_LIMIT: Final = 100
_SKIP_MAX: Final = 2000  # its own limit is undocumented: an interval with more is read in halves
_SKIPPED_MAX: Final = 5_000  # maximum within one second, so that reading ends
_HALVED_MIN: Final = timedelta(seconds=1)
_COUNT_MAX: Final = 100_000_000
_EVENT: Final = "OPENPIX:TRANSACTION_RECEIVED"
_WEBHOOK_NAME: Final = "pixconnect"


class WooviInstitution(WooviSender, ConnectedInstitution):
    def __init__(self, parts: CallParts, profile: InstitutionProfile) -> None:
        ConnectedInstitution.__init__(self, parts, profile)
        self._account_paths = (f"{_ROOT}/account/", f"{_ROOT}/account")
        options = parts.account.options
        has_two_steps, has_text_psp = options.get("approve") == "two_steps", options.get("psp") == "text"
        WooviSender.__init__(self, self._calls, self._clock, has_two_steps=has_two_steps, has_text_psp=has_text_psp)

    @property
    def traits(self) -> port.InstitutionTraits:
        # It has a statement, and no source says whether its amounts are cents or reais.
        return structs.replace(
            super().traits,
            has_webhook_per_key=False,
            sends=("KEY", "MANUAL", "QRCODE"),
            states_amount_of_code=True,
            # A second payment under a name is refused. The effect of a second approval is unknown, so nothing is begun twice.
            resend_for=timedelta(0) if self._has_two_steps else RESENT_FOR,
            sends_at_once=self._account.sends_at_once,
            sends_per_s=self._account.sends_at_once / OUTCOME_S,
        )

    # Its document names disputes and their evidence, without a schema; the names in its list of movements, by which returns of
    # sent Pix could be found, are undocumented.

    async def open_charge(self, terms: port.ChargeTerms) -> port.OpeningAnswer:
        if terms.due is not None:
            # Its own kind counts days from the opening, has few modalities, and only its end can be revised.
            return port.CertainRefusal(code="due", reason="Woovi opens no charge with a due date by these terms")
        body = dict[str, object](correlationID=terms.txid, value=terms.amount_cents, type="DYNAMIC", expiresIn=terms.lifetime_s)
        if terms.question:
            body["comment"] = terms.question
        if terms.payer is not None:
            body["customer"] = {"name": terms.payer.name, "taxID": terms.payer.tax_id}
        if terms.lines:
            body["additionalInfo"] = [{"key": line.name, "value": line.value} for line in terms.lines]
        change = Call("charge", "POST", f"{_ROOT}/charge", body)
        charge = await obtain(self._calls, change, self._read_charge)
        # Woovi chooses the account's key of a charge.
        if isinstance(charge, port.OpenedCharge) and (charge.txid, charge.amount_cents) != (terms.txid, terms.amount_cents):
            return port.UnknownOutcome(reason=ANOTHER_CHARGE)
        return charge

    async def read_charge(self, txid: str, *, has_due_date: bool = False) -> port.OpenedCharge | None:
        content = await self._calls.read("charge", f"{_ROOT}/charge/{txid}")
        charge = self._read_found(content, lambda: self._read_charge(content.members))
        if charge is not None and charge.txid != txid:
            raise port.InstitutionUnavailable(ANOTHER_CHARGE)
        return charge

    async def revise_charge(self, terms: port.ChargeTerms) -> port.OpeningAnswer:
        known = await self._find_open(terms.txid)
        if not isinstance(known, port.OpenedCharge):
            return known
        if known.amount_cents != terms.amount_cents:
            return port.CertainRefusal(code="UNCHANGEABLE", reason="Woovi changes a charge's end alone", member="amount")
        ends_at = known.created_at + timedelta(seconds=terms.lifetime_s)
        path = f"{_ROOT}/charge/{terms.txid}"
        answer = await self._calls.change(Call("charge", "PATCH", path, {"expiresDate": format_milliseconds(ends_at)}))
        return self._judge_changed(answer, structs.replace(known, lifetime_s=terms.lifetime_s))

    async def remove_charge(self, txid: str, *, has_due_date: bool = False) -> port.OpeningAnswer:
        known = await self._find_open(txid)
        if not isinstance(known, port.OpenedCharge):
            return known
        answer = await self._calls.change(Call("charge", "DELETE", f"{_ROOT}/charge/{txid}"))
        return self._judge_changed(answer, structs.replace(known, status="removed_by_us"))

    async def list_received(
        self, since: datetime, until: datetime, *, only_returned: bool = False
    ) -> AsyncGenerator[Sequence[port.ReceivedPix | MalformedItem]]:
        waiting = split(since, until)
        while waiting:
            begin, end = waiting.pop(0)
            skip, goes_on = 0, True
            while goes_on:
                if skip > _SKIPPED_MAX:
                    raise port.InstitutionUnavailable("the list of transactions has no end")
                rows, count, goes_on = await self._read_page(begin, end, skip)
                is_long = count > _SKIP_MAX or (goes_on and skip + _LIMIT >= _SKIP_MAX)
                # Not read up to the maximum skip: duplicates are merged.
                if is_long and end - begin > _HALVED_MIN:
                    middle = begin + (end - begin) / 2
                    waiting[:0] = [(begin, middle), (middle, end)]
                    break
                items = [item for row in rows for item in await self._read_row(row, only_returned=only_returned)]
                yield wire.bound_malformed(items)
                skip += _LIMIT

    async def read_received(self, end_to_end_id: str) -> port.ReceivedPix | None:
        content = await self._calls.read("pix", f"{_ROOT}/transaction/{end_to_end_id}")
        row = self._read_found(content, lambda: wire.take_members(content.members, "transaction"))
        if row is None:
            return None
        items = await self._read_row(row, only_returned=False)
        if not items:
            return None
        if unreadable := [item for item in items if isinstance(item, MalformedItem)]:
            raise port.InstitutionUnavailable(unreadable[0].reason)
        (pix,) = (item for item in items if isinstance(item, port.ReceivedPix))
        if pix.end_to_end_id != end_to_end_id:
            raise port.InstitutionUnavailable("the institution answered another Pix than we asked for")
        return pix

    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> port.RefundAnswer:
        body = {"transactionEndToEndId": end_to_end_id, "correlationID": refund_id, "value": amount_cents}
        path = f"{_ROOT}/refund"
        change = Call("refund", "POST", path, body, is_new=True)
        refund = await obtain(
            self._calls, change, lambda members: woovi_records.read_cents_refund(wire.take_members(members, "refund"))
        )
        if isinstance(refund, port.ListedRefund) and (refund.id, refund.amount_cents) != (refund_id, amount_cents):
            return port.UnknownOutcome(reason=ANOTHER_REFUND)
        return refund

    async def read_refund(self, end_to_end_id: str, refund_id: str) -> port.ListedRefund | None:
        # Queries by its own id do not find it in practice.
        content = await self._calls.read("refund", f"{_ROOT}/refund/{refund_id}")
        refund = self._read_found(
            content, lambda: woovi_records.read_cents_refund(wire.take_members(content.members, "pixTransactionRefund"))
        )
        if refund is not None and refund.id != refund_id:
            raise port.InstitutionUnavailable(ANOTHER_REFUND)
        return refund

    async def read_balance(self) -> int:
        content = await self._read_accounts()
        return self._read_required(content, lambda: _read_total(content.members, self._account.account))

    async def _read_accounts(self) -> Content:
        """Read the list of accounts; its path ends with a slash in the API document, and without one elsewhere."""
        *before, last = self._account_paths
        for path in before:
            with suppress(port.InstitutionUnavailable):
                content = await self._calls.read("account", path, body_max=LIST_MAX)
                if content.status not in (404, 405):
                    self._account_paths = (path,)
                    return content
        return await self._calls.read("account", last, body_max=LIST_MAX)

    async def list_webhooks(self) -> Sequence[port.Webhook]:
        return [
            port.Webhook(
                key=None, url=wire.take_text(members, "url", URL_LENGTH_MAX), created_at=wire.find_instant(members, "createdAt")
            )
            for row in await self._read_webhooks()
            if (members := as_members(row) or {}).get("event") == _EVENT and isinstance(members.get("url"), str)
        ]

    async def set_webhook(self, key: str, url: str) -> None:
        # One for the account: each webhook has one event, and this one covers all incoming money.
        webhook = {"name": _WEBHOOK_NAME, "event": _EVENT, "url": url, "authorization": "", "isActive": True}
        body = {"webhook": webhook}
        await self._make_sure(Call("webhook", "POST", f"{_ROOT}/webhook", body), url)

    async def remove_webhook(self, key: str, url: str) -> None:
        for name in woovi_records.list_ids(await self._read_webhooks(), _EVENT, url):
            await self._make_sure(Call("webhook", "DELETE", f"{_ROOT}/webhook/{name}"))

    async def check(self, keys: Sequence[str]) -> Sequence[port.PermissionTried]:
        now = self._clock.real_now()
        interval = {"start": format_milliseconds(now - timedelta(minutes=1)), "end": format_milliseconds(now)}
        written = "known at first use: nothing that changes something is tried"
        return [
            await self._try("CHARGE_GET", f"{_ROOT}/charge/{self._entropy.token(32)}"),
            port.PermissionTried(name="CHARGE_POST", is_given=None, explanation=written),
            await self._try("TRANSACTION_GET_LIST", f"{_ROOT}/transaction", interval),
            port.PermissionTried(name="REFUND_POST", is_given=None, explanation=written),
            await self._try("WEBHOOK_GET_LIST", f"{_ROOT}/webhook"),
            self._judge_tried("ACCOUNT_GET_LIST", await self._read_accounts()),
            await self._try("PAYMENT_GET", f"{SENDS}/{self._entropy.token(32)}"),
            port.PermissionTried(name="PAYMENT_POST", is_given=None, explanation=written),
            *[port.PermissionTried(name=f"key {key}", is_given=None, explanation="known at its first use") for key in keys],
        ]

    async def _find_open(self, txid: str) -> port.OpenedCharge | port.NotSent | port.UnknownOutcome:
        """Find the charge in its present state, before any change."""
        try:
            known = await self.read_charge(txid)
        except port.InstitutionUnavailable as error:
            return port.NotSent(reason=error.reason, retry_after=error.retry_after)
        return port.UnknownOutcome(reason="the institution knows no such charge") if known is None else known

    def _judge_changed(
        self, answer: Content | port.NotSent | port.UnknownOutcome, changed: port.OpenedCharge
    ) -> port.OpeningAnswer:
        if not isinstance(answer, Content):
            return answer
        is_done = answer.is_success and answer.members.get("status") == "OK"
        return changed if is_done else port.UnknownOutcome(reason=self._calls.describe(answer))

    def _read_charge(self, members: Mapping[str, object]) -> port.OpenedCharge:
        return woovi_records.read_cents_charge(wire.take_members(members, "charge"), self._clock.now())

    async def _read_page(self, begin: datetime, end: datetime, skip: int) -> tuple[Sequence[object], int, bool]:
        """Read lines, their number as far as reported, and whether there are more."""
        query = {"start": format_milliseconds(begin), "end": format_milliseconds(end + timedelta(milliseconds=1))}
        paged = query | {"skip": str(skip), "limit": str(_LIMIT)}
        content = await self._calls.read("list", f"{_ROOT}/transaction", paged, body_max=LIST_MAX)
        rows = self._read_required(content, lambda: wire.take_rows(content.members, "transactions"))
        page = as_members(content.members.get("pageInfo")) or {}
        # Only the documentation has this member, and not the API document.
        has_count = page.get("totalCount") is not None
        count = self._read_required(content, lambda: wire.take_count(page, "totalCount", _COUNT_MAX)) if has_count else 0
        return rows, count, has_more(content.members, len(rows), skip + _LIMIT, _LIMIT)

    async def _read_row(self, row: object, *, only_returned: bool) -> Sequence[port.ReceivedPix | MalformedItem]:
        try:
            pix = woovi_records.read_cents_pix(as_members(row) or {})
        except wire.Malformed as error:
            return [wire.as_malformed(row, error.reason)]
        if pix is None:
            return []
        name = woovi_records.find_charge_name(row)
        if name is None:
            # No list has the refunds of a Pix without a charge; ours are queried by name.
            return [] if only_returned else [pix]
        content = await self._calls.read("refund", f"{_ROOT}/charge/{name}/refund", body_max=LIST_MAX)
        refunds, items = list[port.ListedRefund](), list[port.ReceivedPix | MalformedItem]()
        for found in self._read_required(content, lambda: wire.take_rows(content.members, "refunds")):
            try:
                refunds.append(woovi_records.read_cents_refund(as_members(found) or {}))
            except wire.Malformed as error:
                items.append(wire.as_malformed(found, f"refunds: {error.reason}"))
        return [structs.replace(pix, refunds=refunds), *items]

    async def _read_webhooks(self) -> Sequence[object]:
        content = await self._calls.read("webhook", f"{_ROOT}/webhook", body_max=LIST_MAX)
        return self._read_required(content, lambda: wire.take_rows(content.members, "webhooks"))

    def _is_absent(self, content: Content) -> bool:
        # A query by name alone gets 400 only for not found.
        return bool(content.members) and content.status in (400, 404)

    async def _try(self, name: str, path: str, query: Mapping[str, str] | None = None) -> port.PermissionTried:
        content = await self._calls.read("account", path, query, body_max=LIST_MAX)
        return self._judge_tried(name, content, is_absent=not query and content.status in (400, 404))


def _read_total(members: Mapping[str, object], number: str) -> int:
    """Read the balance of the account of this number, of the only one, or of the default one."""
    found = [as_members(row) or {} for row in wire.take_rows(members, "accounts")]
    if number:
        found = [row for row in found if number in (row.get("account"), row.get("accountId"))]
    if len(found) > 1:
        found = [row for row in found if row.get("isDefault") is True]
    if len(found) != 1:
        raise wire.Malformed("accounts: there is none of this number, or more than one")
    return wire.take_cents(wire.take_members(found[0], "balance"), "total", is_balance=True)
