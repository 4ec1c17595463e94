"""An account at an institution with the central bank's Pix API, by its profile.

The differences are data: paths, conclusive refusals, words for absence. An institution's additions to the standard are in
subclasses in files of their own. ``ConnectedInstitution`` has what institutions with another API need too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec import Struct, structs

from pixconnect.features.institutions.adapters.calls import Call, Calls, obtain, read_required
from pixconnect.features.institutions.adapters.message import LIST_MAX, Content
from pixconnect.features.institutions.adapters.standard_records import (
    decode_charge,
    decode_pix,
    decode_refund,
    read_items,
    write_charge,
)
from pixconnect.features.institutions.adapters.token import CallParts, open_sending_tokens, open_tokens
from pixconnect.features.institutions.adapters.wire import find_instant, take_count, take_members, take_rows, take_text
from pixconnect.features.institutions.profiles.account_traits import CertainAnswer, Route
from pixconnect.features.institutions.profiles.profile import OPERATIONS, InstitutionProfile
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules.money import format_reais
from pixconnect.platform.base.address_rules import URL_LENGTH_MAX
from pixconnect.platform.base.clock import format_instant

_TXID_LENGTH: Final = 32
_DUE_SCOPE: Final = "cobv.write"
_REMOVED: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
ANOTHER_CHARGE: Final = "the institution answered another charge than we asked for"
ANOTHER_REFUND: Final = "the institution answered another refund than we asked for"
WINDOW: Final = timedelta(days=1)  # the standard does not limit the span of a list, but institutions may
_PAGES_MAX: Final = 10_000

ReadT = TypeVar("ReadT")


class PagedList(Struct, frozen=True, kw_only=True):
    route: Route
    path: str
    member: str = "pix"  # the member with the rows
    query: Mapping[str, str] = {}
    page_size: int = 1000
    window: timedelta = WINDOW


class ConnectedInstitution(port.Institution):
    def __init__(self, parts: CallParts, profile: InstitutionProfile) -> None:
        self._profile = profile
        self._account = parts.account
        self._clock, self._entropy = parts.clock, parts.entropy
        tokens = open_tokens(parts)
        self._calls, self._certificates = Calls(parts, tokens), parts.certificates
        self._sending = Calls(parts, open_sending_tokens(parts) or tokens)
        self._known = profile.account

    @property
    def traits(self) -> port.InstitutionTraits:
        return port.InstitutionTraits(
            list_lag=timedelta(seconds=self._known.list_lag_s),
            lifetime_min_s=self._known.lifetime_min_s,
            certificates=self._certificates,
        )

    async def close(self) -> None:
        self._calls.close()
        self._sending.close()

    def _is_absent(self, content: Content) -> bool:
        """Whether an answer reports that the named thing does not exist."""
        is_named = content.status == 400 and content.name in self._known.absent
        return bool(content.members) and (content.status == 404 or is_named)

    def _read_found(self, content: Content, read: Callable[[], ReadT], calls: Calls | None = None) -> ReadT | None:
        """Read an answer; ``None`` if the institution reports that it does not exist. Anything else must be readable."""
        return None if self._is_absent(content) else self._read_required(content, read, calls)

    def _read_required(self, content: Content, read: Callable[[], ReadT], calls: Calls | None = None) -> ReadT:
        return read_required(calls or self._calls, content, read)

    async def _make_sure(self, change: Call, *secrets: str) -> None:
        answer = await self._calls.change(change)
        if not isinstance(answer, Content):
            raise port.InstitutionUnavailable(answer.reason, answer.retry_after if isinstance(answer, port.NotSent) else None)
        is_absent = change.method == "DELETE" and (answer.status == 404 or answer.name in self._known.absent)
        if not answer.is_success and not is_absent:
            raise self._calls.refuse(answer, *secrets)

    def _judge_tried(self, name: str, content: Content, *, is_absent: bool = False) -> port.PermissionTried:
        if content.is_success or is_absent:
            return port.PermissionTried(name=name, is_given=True)
        explanation = self._calls.describe(content)
        return port.PermissionTried(name=name, is_given=False if content.status == 403 else None, explanation=explanation)


class StandardInstitution(ConnectedInstitution):
    @property
    def traits(self) -> port.InstitutionTraits:
        return structs.replace(
            super().traits,
            has_balance=False,
            # The standard makes the id the refund's identity: a second one under it is answered or refused.
            repeats_refunds=True,
            opens_due=True,
        )

    async def open_charge(self, terms: port.ChargeTerms) -> port.OpeningAnswer:
        # Never without our txid, which makes a repetition idempotent.
        if terms.due is not None and await self._calls.lacks(_DUE_SCOPE):
            return port.CertainRefusal(code="scope", reason=f"the account's credential has no {_DUE_SCOPE}")
        path = self._charge_path("criar_com_txid", terms.txid, has_due_date=terms.due is not None)
        refusals = self._known.opening_refusals
        return await self._change_charge("PUT", path, write_charge(terms), refusals, lambda it: it.is_as_asked(terms))

    async def read_charge(self, txid: str, *, has_due_date: bool = False) -> port.OpenedCharge | None:
        path = self._charge_path("consultar", txid, has_due_date=has_due_date)
        content = await self._calls.read("charge", path)
        charge = self._read_found(content, lambda: self._decode_charge(content.members))
        if charge is not None and (charge.txid, charge.due is not None) != (txid, has_due_date):
            raise port.InstitutionUnavailable(ANOTHER_CHARGE)
        return charge

    async def revise_charge(self, terms: port.ChargeTerms) -> port.OpeningAnswer:
        path = self._charge_path("revisar", terms.txid, has_due_date=terms.due is not None)
        refusals = self._known.revision_refusals
        return await self._change_charge("PATCH", path, write_charge(terms), refusals, lambda it: it.is_as_asked(terms))

    async def remove_charge(self, txid: str, *, has_due_date: bool = False) -> port.OpeningAnswer:
        path = self._charge_path("revisar", txid, has_due_date=has_due_date)
        refusals = self._known.revision_refusals
        return await self._change_charge("PATCH", path, {"status": _REMOVED}, refusals, lambda it: it.txid == txid)

    async def list_received(
        self, since: datetime, until: datetime, *, only_returned: bool = False
    ) -> AsyncGenerator[Sequence[port.ReceivedPix | MalformedItem]]:
        # Malformed items are reported beside the others.
        returned = {"devolucaoPresente": "true"} if only_returned else {}
        listed = PagedList(route="list", path=self._path("pix.listar"), query=returned)
        async for rows in list_rows(self._calls, listed, since, until):
            yield read_items(rows, self._known.words)

    async def read_received(self, end_to_end_id: str) -> port.ReceivedPix | None:
        content = await self._calls.read("pix", self._path("pix.consultar", e2eid=end_to_end_id))
        found = self._read_found(content, lambda: decode_pix(content.value, self._known.words))
        if found is None:
            return None
        pix, unreadable = found
        if unreadable or pix.end_to_end_id != end_to_end_id:
            raise port.InstitutionUnavailable(unreadable[0].reason if unreadable else "the institution answered another Pix")
        return pix

    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> port.RefundAnswer:
        path = self._path("devolucao.solicitar", e2eid=end_to_end_id, id=refund_id)
        # Its id makes a second one the same refund, so it may be repeated after an expired token.
        change = Call("refund", "PUT", path, {"valor": format_reais(amount_cents)}, repeated_on=(401,), is_new=True)
        refusals = self._known.refund_refusals
        refund = await obtain(self._calls, change, self._decode_refund, lambda answer: self._judge(answer, refusals))
        if isinstance(refund, port.ListedRefund) and (refund.id, refund.amount_cents) != (refund_id, amount_cents):
            return port.UnknownOutcome(reason=ANOTHER_REFUND)
        return refund

    async def read_refund(self, end_to_end_id: str, refund_id: str) -> port.ListedRefund | None:
        path = self._path("devolucao.consultar", e2eid=end_to_end_id, id=refund_id)
        content = await self._calls.read("refund", path)
        refund = self._read_found(content, lambda: self._decode_refund(content.members))
        if refund is not None and refund.id != refund_id:
            raise port.InstitutionUnavailable(ANOTHER_REFUND)
        return refund

    async def list_webhooks(self) -> Sequence[port.Webhook]:
        # By key, since not all institutions have a list, and other owners' keys are not ours to read.
        found = [await self._find_webhook(key) for key in self._account.keys]
        return [webhook for webhook in found if webhook is not None]

    async def set_webhook(self, key: str, url: str) -> None:
        path, headers = self._path("webhook", chave=key), self._webhook_headers()
        change = Call("webhook", "PUT", path, {"webhookUrl": url}, headers=headers, repeated_on=self._ended)
        await self._make_sure(change, url)

    async def remove_webhook(self, key: str, url: str) -> None:
        path = self._path("webhook", chave=key)
        change = Call("webhook", "DELETE", path, repeated_on=self._ended)
        await self._make_sure(change)

    async def check(self, keys: Sequence[str]) -> Sequence[port.PermissionTried]:
        granted = await self._calls.tokens.read_granted()
        unknown_charge = self._path("cob.consultar", txid=self._entropy.token(_TXID_LENGTH))
        now = self._clock.real_now()
        interval = {"inicio": format_second(now - timedelta(minutes=1)), "fim": format_second(now)}
        tried = [
            await self._try("cob.read", "charge", unknown_charge),
            # Writes nothing: only opening a charge would show whether that is permitted.
            _look_up_scope("cob.write", granted),
            await self._try("pix.read", "list", self._path("pix.listar"), interval),
            _look_up_scope("pix.write", granted),
            *[await self._try_key(key) for key in keys],
            *await self._try_own(),
        ]
        if self._known.sending_scopes:
            could = await self._calls.tokens.try_scopes(self._known.sending_scopes)
            sending = sorted(could or ())
            explanation = f"a credential for receiving that may send: {', '.join(sending)}" if sending else ""
            tried.append(
                port.PermissionTried(name="send", is_given=None if could is None else bool(sending), explanation=explanation)
            )
        return tried

    # Institutions' additions.

    def _webhook_headers(self) -> Mapping[str, str]:
        return {}

    async def _try_own(self) -> Sequence[port.PermissionTried]:
        return ()

    # Shared by all institutions.

    def _decode_charge(self, members: Mapping[str, object]) -> port.OpenedCharge:
        return decode_charge(members, self._known.words)

    def _decode_refund(self, members: Mapping[str, object]) -> port.ListedRefund:
        return decode_refund(members, self._known.words)

    @property
    def _ended(self) -> tuple[int, ...]:
        return tuple(self._known.token_ended)

    def _path(self, operation: str, **names: str) -> str:
        traits = self._profile.standard.operations.get(operation)
        usual = self._profile.standard.prefix + OPERATIONS[operation][1]
        return (traits.path if traits is not None and traits.path else usual).format(**names)

    def _charge_path(self, operation: str, txid: str, *, has_due_date: bool) -> str:
        return self._path(f"{'cobv' if has_due_date else 'cob'}.{operation}", txid=txid)

    async def _change_charge(
        self,
        method: str,
        path: str,
        body: Mapping[str, object],
        refusals: Sequence[CertainAnswer],
        is_asked: Callable[[port.OpenedCharge], bool],
    ) -> port.OpeningAnswer:
        change = Call("charge", method, path, body, repeated_on=self._ended)
        charge = await obtain(self._calls, change, self._decode_charge, lambda answer: self._judge(answer, refusals))
        if isinstance(charge, port.OpenedCharge) and not is_asked(charge):
            return port.UnknownOutcome(reason=ANOTHER_CHARGE)
        return charge

    def _judge(
        self, content: Content, refusals: Sequence[CertainAnswer], calls: Calls | None = None
    ) -> port.CertainRefusal | port.UnknownOutcome:
        # Errors must redact this token too.
        reason = (calls or self._calls).describe(content)
        violated = content.violated
        for known in refusals:
            is_about = not known.properties or (bool(violated) and all(map(known.is_about, violated)))
            if (content.status, content.name) == (known.status, known.name) and is_about:
                member = violated[0] if violated else None
                return port.CertainRefusal(code=content.name, reason=reason, member=member, reject_code=known.reject_code)
        return port.UnknownOutcome(reason=reason)

    async def _find_webhook(self, key: str) -> port.Webhook | None:
        content = await self._calls.read("webhook", self._path("webhook", chave=key))
        return self._read_found(
            content,
            lambda: port.Webhook(
                key=key,
                url=take_text(content.members, "webhookUrl", URL_LENGTH_MAX),
                created_at=find_instant(content.members, "criacao"),
            ),
        )

    async def _try(self, name: str, route: Route, path: str, query: Mapping[str, str] | None = None) -> port.PermissionTried:
        content = await self._calls.read(route, path, query)
        is_absent = content.status == 404 or content.name in self._known.absent
        return self._judge_tried(name, content, is_absent=is_absent)

    async def _try_key(self, key: str) -> port.PermissionTried:
        tried = await self._try(f"webhook.read {key}", "webhook", self._path("webhook", chave=key))
        # A key's webhook may be absent; an existing one proves that the key is ours.
        explanation = tried.explanation or "whether it is a key of this account is known at its first use"
        return structs.replace(tried, explanation=explanation)


def _look_up_scope(name: str, granted: Collection[str] | None) -> port.PermissionTried:
    if granted is None:
        return port.PermissionTried(name=name, is_given=None, explanation="the institution does not say; known at first use")
    return port.PermissionTried(name=name, is_given=name in granted)


async def list_rows(calls: Calls, listed: PagedList, since: datetime, until: datetime) -> AsyncGenerator[Sequence[object]]:
    """Yield pages of raw rows; raises ``InstitutionUnavailable`` if a whole page is unreadable."""

    def read(members: Mapping[str, object]) -> tuple[Sequence[object], int]:
        paging = take_members(take_members(members, "parametros"), "paginacao")
        return take_rows(members, listed.member), take_count(paging, "quantidadeDePaginas", _PAGES_MAX)

    for begin, end in split(since, until, listed.window):
        # Instants without milliseconds are accepted everywhere; the truncated second is read too.
        span = {"inicio": format_second(begin), "fim": format_second(end + timedelta(seconds=1))}
        number, count = 0, 1
        while number < count:
            page = {"paginacao.paginaAtual": str(number), "paginacao.itensPorPagina": str(listed.page_size)}
            query = {**span, **listed.query, **page}
            content = await calls.read(listed.route, listed.path, query, body_max=LIST_MAX)
            rows, count = read_required(calls, content, lambda content=content: read(content.members))
            yield rows
            number += 1


def split(since: datetime, until: datetime, window: timedelta = WINDOW) -> list[tuple[datetime, datetime]]:
    """Split an interval into parts that share their ends, oldest first.

    Example:
        >>> from datetime import datetime
        >>> [begin.day for begin, _ in split(datetime(2026, 1, 1), datetime(2026, 1, 3, 12))]
        [1, 2, 3]
    """
    parts = list[tuple[datetime, datetime]]()
    while since < until or not parts:
        parts.append((since, min(since + window, until)))
        since += window
    return parts


def format_second(instant: datetime) -> str:
    return f"{format_instant(instant)[:19]}Z"
