"""One request to the console: the visitor, the language, the chosen holder; and the answering page."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeVar, cast
from urllib.parse import parse_qsl, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pixconnect.doors.console import filters, wanted
from pixconnect.doors.console.exports import Exports
from pixconnect.doors.console.language import LANGUAGES, Language, choose_language
from pixconnect.kernel.feature import FeatureParts, list_files
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import Act
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.rules.access import Caller, Viewer, Visitor
from pixconnect.platform import outgoing_text
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import Network, client_address
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.flow.turns import Turns

_FOLDER: Final = Path(__file__).parent / "assets"
_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Assets:
    """All files, read when the process starts."""

    def __init__(self) -> None:
        self._answers: dict[str, Response] = {}
        self._addresses: dict[str, str] = {}
        for path in sorted(_FOLDER.iterdir()):
            if path.suffix not in _MEDIA_TYPES:
                continue
            content = path.read_bytes()
            name = f"{path.stem}.{hashlib.blake2b(content, digest_size=6).hexdigest()}{path.suffix}"
            self._addresses[path.name] = f"/assets/{name}"
            self._answers[name] = Response(
                content, media_type=_MEDIA_TYPES[path.suffix], headers={"cache-control": "public, max-age=31536000, immutable"}
            )

    def address(self, name: str) -> str:
        return self._addresses[name]

    def find(self, name: str) -> Response | None:
        return self._answers.get(name)


class MenuEntry(Struct, frozen=True, kw_only=True):
    section: Literal["payments", "webhooks", "account", "audit"]
    path: str
    text: str  # English: each language translates it
    is_shown: "Callable[[Visit], bool]" = lambda _visit: True
    # How many things of it wait for a person; the number stands beside its text.
    count: "Callable[[Visit], Awaitable[int]] | None" = None


class FindVisitor(Protocol):
    async def __call__(self, context: Operator, token: str, *, is_used: bool = True) -> Visitor | None:
        """Return the visitor with this token; ``None`` if it is no longer valid. Using it extends the session."""
        ...


class ConsoleParts(Struct, frozen=True, kw_only=True):
    context: Context  # with the service's rights: reads, and holders' own acts
    operator: Operator  # with the console's own rights too: sessions and the audit
    find_visitor: FindVisitor
    of_features: FeatureParts  # further dependencies of features' pages
    assets: Assets
    exports: Exports
    turns: Turns  # decides the next use of the event loop
    # The console's host names, with the port. Any other name is DNS rebinding, and is refused.
    hosts: frozenset[str]
    draw_qr: Callable[[str], bytes]  # a QR code as PNG
    base_url: str  # where browsers reach it
    cookie_name: str
    api_url: str
    auth_url: str
    version: str
    menu: Sequence[MenuEntry]
    trusted_proxies: Sequence[Network]
    standby: Standby | None = None  # the standby for lists, searches, figures and files; ``None`` without one

    @property
    def is_secure(self) -> bool:
        return self.base_url.startswith("https://")

    @property
    def is_sandbox(self) -> bool:
        return self.context.policy.is_sandbox


THEMES: Final = ("light", "dark")
LANGUAGE_COOKIE: Final = "pixconnect_language"
THEME_COOKIE: Final = "pixconnect_theme"
SAVED_COOKIE: Final = "pixconnect_saved"
SAVED_MAX: Final = 10
_HOLDER: Final = "holder"
SEARCH_PATH: Final = "/search"

Done = TypeVar("Done")


def _finalize(value: object) -> object:
    # All markup was rendered from texts that were escaped here. An amount stays on one line.
    return outgoing_text.on_page(value).replace("R$ ", "R$\u00a0") if type(value) is str else value


_templates: Final = Environment(
    loader=FileSystemLoader([Path(__file__).parent / "templates", *list_files("templates")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
    finalize=_finalize,
)
cast("dict[str, object]", _templates.globals).update(filters.GLOBALS)  # pyright: ignore[reportUnknownMemberType] - it is untyped


class Visit(Struct, frozen=True, kw_only=True):
    request: Request
    parts: ConsoleParts
    visitor: Visitor | None
    language: Language
    theme: Literal["", "light", "dark"]  # empty follows the system
    is_part: bool = False  # whether only the live part of the page is requested
    sent: FormData = FormData()  # a form's fields, from any sender
    owner_id: int | None = None  # the owner of the resource that an operator acts on, if the address names no holder
    holder_name: str = ""  # the visitor's holder, or the one that the address names
    counts: Mapping[str, int] = MappingProxyType({})  # what waits for a person, by the path of its entry in the menu

    @property
    def who(self) -> Visitor:
        return errors.require(self.visitor, "a page behind the door")

    @property
    def holder_id(self) -> int | None:
        """Return the holder on the page: a holder's visitor has only one, an operator's is in the address."""
        if self.visitor is not None and self.visitor.holder_id is not None:
            return self.visitor.holder_id
        return self.owner_id or self.chosen_id

    @property
    def chosen_id(self) -> int | None:
        return wanted.read_id(self.request.query_params.get(_HOLDER, ""))

    @property
    def viewer(self) -> Viewer:
        return self.who.viewer(self.holder_id)

    @property
    def address(self) -> str:
        """Return the address whose failed sign-ins are counted."""
        peer = self.request.client.host if self.request.client else ""
        return client_address(peer, self.request.headers.get("x-forwarded-for", ""), self.parts.trusted_proxies)

    def menu(self, section: str) -> list[MenuEntry]:
        if section == "audit" and self.who.kind == "holder":
            return []
        return [entry for entry in self.parts.menu if entry.section == section and entry.is_shown(self)]

    @property
    def menu_path(self) -> str:
        """The entry of the menu to which the page belongs: of those with which its address begins, the longest."""
        path = self.request.url.path
        paths = [each.path for each in self.parts.menu if path == each.path or path.startswith(f"{each.path}/")]
        return max(paths, key=len, default=path)

    @property
    def saved(self) -> list[tuple[str, str]]:
        """The addresses that the visitor has saved in this browser, by name."""
        pairs = parse_qsl(self.request.cookies.get(SAVED_COOKIE, ""))
        return [(name, address) for name, address in pairs if is_own_address(address)][:SAVED_MAX]

    @property
    def is_filtered(self) -> bool:
        """Whether a list shows less than all of it."""
        return any(self.query(name) for name in self.request.query_params if name not in {_HOLDER, "after", "notice"})

    def refuse_holders(self, reason: str) -> None:
        """Refuse a page about all holders, which is for operators only."""
        if self.who.kind == "holder":
            raise errors.Forbidden(reason)

    def query(self, name: str) -> str:
        # PostgreSQL rejects NUL: such a text matches nothing, as any other unknown text.
        return self.request.query_params.get(name, "").strip().replace("\0", "\N{REPLACEMENT CHARACTER}")

    @property
    def when(self) -> str:
        """The time that a list is about, as ``wanted.read_instants`` reads it: by the form's two days, or else by its text."""
        since, until = self.query("since"), self.query("until")
        if since and until:
            return f"{since}..{until}"
        return f">={since}" if since else f"<={until}" if until else self.query("when")

    def path_id(self) -> int:
        """Read the id in the path; if it cannot be one, the answer is 404."""
        number = wanted.read_id(self.request.path_params["id"])
        if number is None:
            raise errors.NotFound("id: there is no such thing")
        return number

    def link(self, path: str, **query: object) -> str:
        """Make an address of the console that keeps the chosen holder; it leaves out empty values."""
        pairs = [(name, value) for name, value in (self.kept | query).items() if value not in (None, "", ())]
        return f"{path}?{urlencode(pairs, doseq=True)}" if pairs else path

    @property
    def kept(self) -> dict[str, object]:
        """Return what addresses and filters keep of this one, by its name in them."""
        # A holder's visitor has one holder.
        if self.visitor is None or self.visitor.holder_id is not None or self.chosen_id is None:
            return {}
        return {_HOLDER: self.chosen_id}

    def here(self, **changed: object) -> str:
        """Return this page's own address with some of its query changed; empty values are left out."""
        query: list[tuple[str, str]] = [
            (name, value) for name, value in self.request.query_params.multi_items() if name not in changed
        ]
        query += [(name, str(value)) for name, value in changed.items() if value not in (None, "")]
        return self.request.url.path + (f"?{urlencode(query)}" if query else "")

    def about(self, holder_id: int) -> "Visit":
        """Return the visit about the holder of a found resource."""
        return msgspec.structs.replace(self, owner_id=holder_id)

    def form(self) -> FormData:
        """The sent form, which must come from the console's own pages."""
        token = self.sent.get("csrf", "")
        if not isinstance(token, str) or not hmac.compare_digest(token.encode(), self.who.csrf_token.encode()):
            raise errors.Forbidden("this form is not of this session: load the page again and send it from there")
        return self.sent

    @property
    def context(self) -> Context:
        return self.parts.context

    @property
    def operator(self) -> Operator:
        return self.parts.operator

    @property
    def acting(self) -> Context:
        """Return the context of use cases that record their act themselves: on connections that may write the audit."""
        return msgspec.structs.replace(self.context, pool=self.operator.pool)

    def begin_act(self, reason: str) -> Operator:
        """Return the operator who acts by a form, as the audit names them; ``reason`` explains to holders why they may not."""
        self.refuse_holders(reason)
        if not self.who.may_act:
            raise errors.Forbidden("a reader changes nothing")
        self.form()
        return self.operator.acting_as(self.who.audit_name)

    def act(self, verb: str, subject: str, after: Mapping[str, object] | None = None) -> tuple[Caller, Act]:
        """Return the actor on a holder's resources, and the audit's record of it; ``BadRequest`` without a chosen holder."""
        caller = self.who.caller(self.holder_id, self.address)
        return caller, self._make_act(verb, subject, dict(after or {}, holder_id=caller.holder_id))

    def sandbox_act(self, verb: str, subject: str, after: Mapping[str, object]) -> Act:
        """As ``act``, for the sandbox's shared parts: its clock, and its network's faults."""
        if not self.who.may_act:
            raise errors.Forbidden("a reader changes nothing")
        return self._make_act(verb, subject, after)

    def _make_act(self, verb: str, subject: str, after: Mapping[str, object]) -> Act:
        return Act(operator=self.who.audit_name, verb=verb, subject=subject, after=after)

    async def do_and_note(self, act: Act, deed: Awaitable[Done]) -> Done:
        """Do a holder's own act, or one of the sandbox, and record it afterwards: neither writes the audit itself."""
        try:
            done = await deed
        except errors.OutcomeUnknown:
            unknown = dict(act.after, outcome="unknown")
            await audit.note(self.operator, msgspec.structs.replace(act, after=unknown))
            raise
        await audit.note(self.operator, act)
        return done

    def page(self, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: object) -> Response:
        found = _templates.get_template(template)
        names = (
            values
            | filters.of_language(self.language)
            | dict(
                visit=self,
                visitor=self.visitor,
                parts=self.parts,
                language=self.language,
                languages=tuple(LANGUAGES.values()),
                zone=SAO_PAULO.key,
                link=self.link,
                here=self.here,
                _=self.language.text,
                layout="part.html" if self.is_part else "base.html",
            )
        )
        return HTMLResponse(found.render(names), status, headers)

    def go(self, path: str, **query: object) -> Response:
        """Redirect the browser after a form, so that reloading sends nothing twice."""
        return RedirectResponse(self.link(path, **query), 303)


def is_own_address(text: str) -> bool:
    """Whether it leads to a page of the console itself."""
    return text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()


def read_visit(request: Request, parts: ConsoleParts, visitor: Visitor | None) -> Visit:
    theme = request.cookies.get(THEME_COOKIE, "")
    return Visit(
        request=request,
        parts=parts,
        visitor=visitor,
        language=choose_language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", "")),
        theme=msgspec.convert(theme, Literal["light", "dark"]) if theme in THEMES else "",
    )
