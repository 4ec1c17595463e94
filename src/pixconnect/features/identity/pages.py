"""Sign-in by a link, by a client's credentials or as an operator; sign-out; sessions; language and colours."""

from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.language import LANGUAGES
from pixconnect.doors.console.visit import LANGUAGE_COOKIE, SAVED_COOKIE, SAVED_MAX, THEME_COOKIE, THEMES, Visit, is_own_address
from pixconnect.features.identity.service import console_session
from pixconnect.features.identity.service.console_session import NewSession, OperatorSignIn, SignIn
from pixconnect.features.identity.service.token_issuer import TokenRequest
from pixconnect.platform.base import errors

_PREFERENCE_S: Final = 365 * 86_400
_NAME_LENGTH_MAX: Final = 40
_SAVED_LENGTH_MAX: Final = 3_500  # a browser keeps no longer cookie


async def show_sign_in(visit: Visit) -> Response:
    return _door(visit, _way(visit))


async def sign_in(visit: Visit) -> Response:
    form, way = visit.sent, _way(visit)
    try:
        if way == "operator":
            session = await visit.parts.of_features[SignIn].operator(
                OperatorSignIn(
                    name=_text(form, "name"), password=_text(form, "password"), code=_text(form, "code"), address=visit.address
                )
            )
        else:
            session = await visit.parts.of_features[SignIn].client(
                TokenRequest(
                    client_id=_text(form, "client_id"), client_secret=_text(form, "client_secret"), address=visit.address
                )
            )
    except errors.RateLimited as refusal:
        return _door(visit, way, "limited", status=429, headers={"retry-after": str(refusal.retry_after_s)})
    except (errors.Unauthorized, errors.BadRequest):
        return _door(visit, way, "wrong", name=_text(form, "client_id") or _text(form, "name"), status=401)
    return _begin_session(visit, session, _own_address(visit.query("next")))


async def show_link(visit: Visit) -> Response:
    # Looking at a link must not use it up: mail scanners and previews open every link.
    return visit.page("enter.html", token=visit.query("token"), wrong=False)


async def enter(visit: Visit) -> Response:
    form = visit.sent
    try:
        session = await visit.parts.of_features[SignIn].link(_text(form, "token"))
    except (errors.Unauthorized, errors.Forbidden):
        return visit.page("enter.html", token="", wrong=True, status=401)
    return _begin_session(visit, session, "/")


async def sign_out(visit: Visit) -> Response:
    visit.form()
    await console_session.revoke_session(visit.operator, visit.who, visit.who.session_id)
    answer = RedirectResponse("/sign-in?notice=signed_out", 303)
    answer.delete_cookie(visit.parts.cookie_name, secure=visit.parts.is_secure, httponly=True, samesite="strict")
    return answer


async def set_preferences(visit: Visit) -> Response:
    """Store a language, colours or an address in the browser; nothing of the service changes."""
    form = visit.sent
    answer = RedirectResponse(_own_address(_text(form, "next")), 303)
    language, theme = _text(form, "language"), _text(form, "theme")
    if language in LANGUAGES:
        answer.set_cookie(LANGUAGE_COOKIE, language, _PREFERENCE_S, httponly=True, samesite="lax")
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, _PREFERENCE_S, httponly=True, samesite="lax")
    elif theme:
        answer.delete_cookie(THEME_COOKIE, httponly=True, samesite="lax")
    if name := _text(form, "name").strip():
        # The newest first; the address that has the name already is forgotten.
        kept = [(each, address) for each, address in visit.saved if each != name]
        if "save" in form:
            kept.insert(0, (name[:_NAME_LENGTH_MAX], _own_address(_text(form, "next"))))
        while len(urlencode(kept)) > _SAVED_LENGTH_MAX:
            kept.pop()
        answer.set_cookie(
            SAVED_COOKIE, urlencode(kept[:SAVED_MAX]), _PREFERENCE_S,
            secure=visit.parts.is_secure, httponly=True, samesite="strict",
        )  # fmt: skip
    return answer


async def show_sessions(visit: Visit) -> Response:
    sessions = await console_session.list_sessions(visit.operator, visit.who)
    return visit.page("sessions.html", sessions=sessions)


async def end_session(visit: Visit) -> Response:
    visit.form()
    await console_session.revoke_session(visit.operator, visit.who, visit.path_id())
    return visit.go("/sessions", notice="ended")


async def show_help(visit: Visit) -> Response:
    return visit.page("help.html")


def _door(
    visit: Visit, way: str, wrong: str = "", *, name: str = "", status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return visit.page("sign_in.html", way=way, wrong=wrong, name=name, status=status, headers=headers)


def _begin_session(visit: Visit, session: NewSession, next_address: str) -> Response:
    answer = RedirectResponse(next_address, 303)
    answer.set_cookie(
        visit.parts.cookie_name, session.token, path="/", secure=visit.parts.is_secure, httponly=True, samesite="strict"
    )
    return answer


def _way(visit: Visit) -> str:
    return "operator" if visit.query("as") == "operator" else "client"


def _text(form: FormData, name: str) -> str:
    # As it was sent: a password may begin with a blank.
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _own_address(text: str) -> str:
    """Return an address of the console itself; for anything else, its first page."""
    return text if is_own_address(text) else "/"


ROUTES: Final = (
    PageRoute(path="/sign-in", page=show_sign_in, is_public=True),
    PageRoute(path="/sign-in", page=sign_in, method="POST", is_public=True, is_sign_in=True),
    PageRoute(path="/enter", page=show_link, is_public=True),
    PageRoute(path="/enter", page=enter, method="POST", is_public=True, is_sign_in=True),
    PageRoute(path="/preferences", page=set_preferences, method="POST", is_public=True),
    PageRoute(path="/sign-out", page=sign_out, method="POST"),
    PageRoute(path="/sessions", page=show_sessions),
    PageRoute(path="/sessions/{id}/end", page=end_session, method="POST"),
    PageRoute(path="/help", page=show_help),
)
