"""One holder's requests and payments in an installation whose processes die, and what must be true at the end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from support.money_model import Asked, MoneyModel
from support.whole_installation import Answer, WholeInstallation

AMOUNT_CENTS: Final = 1_234
FUNDS_CENTS: Final = 10_000

_numbers = count(1)


class Story:
    def __init__(self, service: WholeInstallation, funds_cents: int = FUNDS_CENTS) -> None:
        self.service = service
        self.account = service.open_account(funds_cents)
        self.model = MoneyModel(deposits={self.account.holder_id: Counter([funds_cents])})

    def ask(self, kind: str, path: str, ending: str, amount_cents: int = AMOUNT_CENTS, **body: object) -> Answer:
        """Repeat a request under an external id until an answer comes."""
        asked = Asked(
            kind=kind,  # type: ignore[arg-type]
            holder_id=self.account.holder_id,
            external_id=f"story-{next(_numbers)}",
            amount_cents=amount_cents,
            endings={ending},
        )
        self.model.ask(asked)
        body |= {"amount": amount_cents, "external_id": asked.external_id}
        answer = self.service.insist(self.account, "POST", path, body)
        assert answer.status == 200, answer
        asked.told_id = answer.data["id"]
        again = self.service.insist(self.account, "POST", path, body)
        assert again.data["id"] == asked.told_id
        return answer

    def ask_for_lot(self, number: int, charges: Sequence[Mapping[str, object]]) -> None:
        for charge in charges:
            asked = Asked(
                kind="charge", holder_id=self.account.holder_id, external_id=str(charge["txid"]),
                amount_cents=AMOUNT_CENTS, endings={"PENDING"},
            )  # fmt: skip
            self.model.ask(asked)
        body = {"descricao": "Carnê", "cobsv": charges}
        for _ in range(2):
            assert self.service.insist(self.account, "PUT", f"/v2/lotecobv/{number}", body).status == 202

    def be_paid(self, **how: object) -> None:
        self.service.ask(self.account, "POST", "/sandbox/v1/payments", how)

    def let_next_payment(self, effect: str) -> None:
        rule = {"match": {"operation": "payment"}, "effect": effect, "times": 1}
        self.service.insist(self.account, "PUT", "/sandbox/v1/faults", {"rules": [rule]})

    def settle(self) -> None:
        self.model.check_at_rest(self.service.settle([self.account]))
