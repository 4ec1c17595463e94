"""Callers of holders in several cells: they do what callers do anyway, and pay each other across, and give it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Final

from msgspec import Struct

from pixconnect.domain.identity.access import SCOPES
from support.account_at_face import insist
from support.chaos.load import Book, Caller, Purse
from support.whole_installation import Account, WholeInstallation

NAME: Final = "second"
NUMBER: Final = 1
_WEIGHTS: Final = dict(pay_key_across=5, pay_account_across=3, pay_code_across=4)
_PARTY: Final = dict(account_type="CHECKING", branch="0001", ispb="99999003")
"""What all holders of one installation have alike."""


class Neighbour(Struct, frozen=True):
    """A holder in another cell, as those who pay it know it."""

    purse: Purse
    party: Mapping[str, str]
    """Its account."""


class CellCaller(Caller):
    """A caller whose holder has neighbours in other cells.

    Args:
        neighbours: Whom it pays there; they find in their purses what they can give back.
    """

    def __init__(
        self,
        base_url: str,
        purse: Purse,
        book: Book,
        chance: Random,
        amounts: count[int],
        *,
        neighbours: Sequence[Neighbour],
        weights: Mapping[str, int],
    ) -> None:
        super().__init__(base_url, purse, book, chance, amounts, dict(_WEIGHTS) | dict(weights))
        self._neighbours = neighbours

    def _pay_key_across(self) -> None:
        payee = self._chance.choice(self._neighbours)
        self._send(payee, "key", {"key": payee.purse.account.key, "key_type": "EMAIL"})

    def _pay_account_across(self) -> None:
        payee = self._chance.choice(self._neighbours)
        self._send(payee, "manual", {"credit_party": dict(payee.party)})

    def _pay_code_across(self) -> None:
        payee = self._chance.choice(self._neighbours)
        if (code := payee.purse.take_code()) is not None:
            emv, amount_cents = code
            self._send(payee, "qrcode", {"emv": emv}, amount_cents)

    def _send(self, payee: Neighbour, how: str, body: dict[str, Any], amount_cents: int | None = None) -> None:
        amount_cents = amount_cents or next(self._amounts)
        payee_id = payee.purse.account.holder_id
        told = self._insist("transfer", f"/v1/connect/transfer/{how}", body, amount_cents, payee_id)
        if "end_to_end_id" in told:
            # Before it has arrived there is nothing to be given back, and whoever tries hears it.
            payee.purse.received.append((told["end_to_end_id"], amount_cents))


def open_holders(service: WholeInstallation, holders_count: int) -> list[Account]:
    """Holders in the second cell, who hear of everything."""
    found: list[Account] = []
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    for number in range(holders_count):
        said = dict(name="Maria Souza", tax_id="52998224725", account_number=f"8{number:06d}")
        words = [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", value)]
        made = insist(service.installation, "holder", "create", *words, "--no-limits", "--cell", NAME, "--json")
        holder, key = ("--holder-id", str(made["holder_id"])), f"holder-{number}@second.example"
        insist(service.installation, "key", "add", *holder, "--key-type", "EMAIL", "--key", key, "--json")
        client = insist(service.installation, "client", "create", *holder, *scopes, "--json")
        account = Account(
            holder_id=made["holder_id"],
            key=key,
            client_id=client["client_id"],
            client_secret=client["client_secret"],
        )
        service.let_hear(account)
        found.append(account)
    return found


def party_of(service: WholeInstallation, account: Account) -> dict[str, str]:
    """Where somebody who pays it by its account sends the money to."""
    shown = insist(service.installation, "holder", "show", "--holder-id", str(account.holder_id), "--json")
    return _PARTY | {name: shown[name] for name in ("account_number", "name", "tax_id")}
