"""Connection settings of an institution: hosts, tokens, paces, and conclusive answers.

This is the part ``[account]`` of a profile. Anything undocumented is absent, so that the default applies: of error answers only
a closed list is conclusive, and all others are queried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

TokenStyle = Literal["basic_json", "basic_form", "body_form", "grant_in_query", "certificate", "none"]
"""Where the credentials and the grant go.

``certificate`` names the client in the body, without a secret. ``none`` sends the secret itself with each call, as the bare
value of ``Authorization``.
"""
Route = Literal["token", "charge", "list", "pix", "refund", "webhook", "account", "statement", "send", "sent"]
"""The groups in which calls are counted."""
Estate = Literal["production", "homologation"]
"""The institution's production machines, which move money, or those of its test environment."""

ChargeWord = Literal["active", "paid", "removed_by_us", "removed_by_institution"]
RefundWord = Literal["under_way", "returned", "refused"]

BalanceMeaning = Literal["ledger", "available", "unclear", "with_limit", "with_investments"]
"""The meaning of the institution's number.

All money on the account, the part that is not blocked, one of these two (undocumented), or more than the account's money: with
an overdraft limit or investments.
"""


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True): ...


class Pace(Part, frozen=True, kw_only=True):
    """A budget for some routes together; in any minute at most ``burst + per_minute`` calls are made.

    A route may have its own share of a common budget.
    """

    routes: Sequence[Route]
    burst: int
    per_minute: int


class CertainAnswer(Part, frozen=True, kw_only=True):
    """An answer that is conclusive: this very call was refused, and nothing was done."""

    status: int
    name: str  # the error's name, from ``nome`` or the last part of ``type``; empty if the form has no such name
    properties: Sequence[str] = ()
    """If any, it is conclusive only if all violations are of these members; a trailing asterisk matches any suffix."""
    reject_code: str | None = None  # for a transfer: the equivalent reason of the scheme

    def is_about(self, violated: str) -> bool:
        below = (name[:-1] for name in self.properties if name.endswith("*"))
        return violated in self.properties or violated.startswith(tuple(below))


class AnswerWords(Part, frozen=True, kw_only=True):
    """Its own words in answers, accepted beside the central bank's. An unknown one is never guessed."""

    charges: Mapping[str, ChargeWord] = {}  # our states by its words for a charge's status
    refunds: Mapping[str, RefundWord] = {}  # our states by its words for a return's status
    codes: Sequence[str] = ()  # its names of the member with a charge's code


USUAL_PACES: Final = (
    Pace(routes=("token",), burst=3, per_minute=3),
    Pace(routes=("charge", "list", "pix", "refund", "webhook"), burst=50, per_minute=1200),
    Pace(routes=("send",), burst=5, per_minute=60),
    Pace(routes=("sent",), burst=50, per_minute=1200),
    Pace(routes=("account", "statement"), burst=5, per_minute=60),
)
"""Used if none are documented."""


class AccountTraits(Part, frozen=True, kw_only=True):
    hosts: Mapping[Estate, Sequence[str]]
    """A closed list: credentials go nowhere else, unless the whole installation is a counterpart's."""
    token_hosts: Mapping[Estate, str] = {}  # token hosts that differ from the other calls' host
    token_style: TokenStyle
    asks_scopes: bool = True  # whether a token is requested with its scopes; otherwise it has the credential's
    scopes: Sequence[str] = ()  # all that receiving needs
    due_scopes: Sequence[str] = ()
    """Additional scopes for charges with a due date: requested too, until the institution refuses a token with them."""
    sending_scopes: Sequence[str] = ()  # scopes that a receiving credential should not have
    asked_to_send: Sequence[str] = ()
    """The scopes of a separate token for sending: a credential without them still receives."""
    token_ended: Sequence[int] = (401,)  # statuses of a call whose token has expired
    homologation_paths: Mapping[str, str] = {}  # path prefixes in the test environment, by those in production
    headers: Mapping[str, str] = {}
    """Headers of each call, with ``{client_id}``, ``{account}`` and ``{uuid}`` filled in; empty ones are left out."""
    query: Mapping[str, str] = {}
    """Query parameters of each call, by the name of the account's option that has the value."""
    paces: Sequence[Pace] = ()
    homologation_paces: Sequence[Pace] = ()
    opening_refusals: Sequence[CertainAnswer] = ()
    revision_refusals: Sequence[CertainAnswer] = ()
    refund_refusals: Sequence[CertainAnswer] = ()
    send_refusals: Sequence[CertainAnswer] = ()
    code_refusals: Sequence[CertainAnswer] = ()
    """Conclusive refusals of a call that pays a code, besides those of all sending calls."""
    pays_from_webhook_keys: bool = False  # a key without a webhook cannot pay
    words: AnswerWords = AnswerWords()
    absent: Sequence[str] = ()  # names of errors with 400 that mean "not found"; 404 does everywhere
    balance: BalanceMeaning = "ledger"
    """The meaning of its balances, in its API and in its files; an account's option of this name overrides it."""
    list_lag_s: int = 60  # how late a payment may appear in the list of received ones; undocumented
    lifetime_min_s: int = 1  # how long a charge must run

    def place_in_tests(self, path: str) -> str:
        """Return where a path of production is in the test environment."""
        usual = next(filter(path.startswith, self.homologation_paths), "")
        return self.homologation_paths.get(usual, "") + path.removeprefix(usual)

    def find_paces(self, route: Route, *, is_homologation: bool) -> Sequence[Pace]:
        """Return the institution's own paces if any are known; all apply. Those that fewer routes share come first."""
        for known in ((self.homologation_paces if is_homologation else ()), self.paces):
            if own := [pace for pace in known if route in pace.routes]:
                return sorted(own, key=lambda pace: len(pace.routes))
        return [next(pace for pace in USUAL_PACES if route in pace.routes)]
