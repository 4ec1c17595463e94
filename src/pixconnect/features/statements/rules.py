"""A statement: every change of a holder's current funds in a span of time, oldest first.

A first and a last number fix its lines at the start; they are then read by number, in parts, however long that takes. Numbered
entries never change and none is inserted between others, so ``opening + lines = closing`` holds although money keeps arriving
meanwhile.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import MovementKind, date_settled

Language = Literal["en", "pt"]
ENDINGS: Final = dict(json="json", csv="csv", ofx="ofx", camt053="xml")
"""The formats, each with the ending of its files' names."""
if TYPE_CHECKING:
    Format: TypeAlias = str
else:
    Format = Literal[tuple(ENDINGS)]

# By language, cause and direction: a line's title, and the word before the counterparty's name.
_TEXTS: Final[dict[tuple[Language, str, str], tuple[str, str]]] = {
    ("en", "transfer", "IN"): ("Pix received", " from "),
    ("en", "transfer", "OUT"): ("Pix sent", " to "),
    ("en", "refund", "IN"): ("Refund received", " from "),
    ("en", "refund", "OUT"): ("Refund sent", " to "),
    ("en", "deposit", "IN"): ("Deposit", ""),
    ("pt", "transfer", "IN"): ("Pix recebido", " de "),
    ("pt", "transfer", "OUT"): ("Pix enviado", " para "),
    ("pt", "refund", "IN"): ("Devolução recebida", " de "),
    ("pt", "refund", "OUT"): ("Devolução enviada", " para "),
    ("pt", "deposit", "IN"): ("Depósito", ""),
}

_MOVEMENT_TEXTS: Final[dict[Language, dict[MovementKind, str]]] = {
    "en": {
        "opening_balance": "Opening balance",
        "fee": "Fee",
        "wire": "Wire transfer",
        "boleto": "Boleto",
        "by_hand": "Moved at the institution",
        "reversal": "Reversal",
        "judicial": "Court order",
        "other": "Other",
    },
    "pt": {
        "opening_balance": "Saldo inicial",
        "fee": "Tarifa",
        "wire": "TED",
        "boleto": "Boleto",
        "by_hand": "Movimentado na instituição",
        "reversal": "Estorno",
        "judicial": "Ordem judicial",
        "other": "Outro lançamento",
    },
}

_REPAYMENT_TEXTS: Final[dict[Language, str]] = {"en": "Deficit repaid", "pt": "Saldo devedor coberto"}

SUSPECT_TEXTS: Final[dict[tuple[Language, str], str]] = {
    ("en", "IN"): "Suspect Pix held by the institution",
    ("en", "OUT"): "Suspect Pix not held any more",
    ("pt", "IN"): "Pix suspeito retido pela instituição",
    ("pt", "OUT"): "Fim da retenção de Pix suspeito",
}
"""A suspect Pix raises current funds while it is held; they fall by it when its hold ends."""

_ADJUSTMENT_TEXTS: Final[dict[Language, str]] = {"en": "Adjustment", "pt": "Ajuste"}


class NumberRange(Struct, frozen=True, kw_only=True):
    first_number: int  # the number of the first line; without lines, the number that the next entry would have
    last_number: int  # the number of the last line; without lines, below ``first_number``
    opening_cents: int  # current funds before the first line, as ``closing_cents`` are after the last
    closing_cents: int
    last_at: datetime | None

    @property
    def lines_count(self) -> int:
        return max(0, self.last_number - self.first_number + 1)


class Statement(Struct, frozen=True, kw_only=True):
    holder_id: int
    account: Party
    initial_at: datetime
    final_at: datetime
    made_at: datetime
    extent: NumberRange
    language: Language = "en"  # the language of descriptions

    @property
    def closed_at(self) -> datetime:
        # A span may end in the future, a balance cannot. The last line may be dated after made_at: instants are advanced so
        # that they rise, and processes differ.
        return min(self.final_at, max(self.made_at, self.extent.last_at or self.made_at))


class Counterparty(Struct, frozen=True, kw_only=True):
    """The other side of a statement's line."""

    name: str
    """The account's owner."""
    tax_id: str
    """CPF or CNPJ."""
    ispb: str
    """The institution."""


class MovedItem(Struct, frozen=True, kw_only=True):
    """The additional facts of a line that is a movement."""

    kind: MovementKind
    item_id: str
    end_to_end_id: str | None  # the Pix that it concerns


class StatementLine(Struct, frozen=True, kw_only=True):
    id: int
    created_at: datetime
    # The transfer's; of a refund, the original's. ``None`` for a deposit, movement, repayment, adjustment or block.
    end_to_end_id: str | None
    return_id: str | None
    direction: Literal["IN", "OUT"]  # ``IN`` raised current funds, ``OUT`` lowered them
    amount_cents: int
    running_balance_cents: int
    counterparty: Counterparty | None
    description: str | None  # a refund's text by its author, or a movement's by the institution
    # The holder's own name for the transfer or refund, or for the charge that was paid.
    external_id: str | None = None
    txid: str | None = None  # the transfer's; of a refund, the original's
    movement: MovedItem | None = None  # set where the institution moved the money by itself
    is_repayment: bool = False  # of a deficit: taken from newly available money
    adjustment: str | None = None  # set where two operators have adjusted the books for a case
    is_suspect: bool = False  # of a suspect credit that the institution holds: released or returned, it leaves again
    payer_message: str | None = None  # of a transfer; the statement does not show it
    # When it settled by the network's clock, if that differs by minutes; for a movement always.
    network_settled_at: datetime | None = None

    @property
    def dated_at(self) -> datetime:
        """Return when it settled, as institutions date it."""
        return date_settled(self.created_at, self.network_settled_at) or self.created_at

    def describe(self, language: Language) -> str:
        """Describe the line: the author's own text, or payer and payee."""
        return self.description or self.name_kind(language)

    def name_kind(self, language: Language) -> str:
        if self.movement is not None:
            return _MOVEMENT_TEXTS[language][self.movement.kind]
        if self.adjustment is not None:
            return _ADJUSTMENT_TEXTS[language]
        if self.is_repayment:
            return _REPAYMENT_TEXTS[language]
        if self.is_suspect:
            return SUSPECT_TEXTS[language, self.direction]
        cause = "transfer" if self.return_id is None else "refund"
        # Of all others, only a deposit has no end-to-end id.
        what, before_name = _TEXTS[language, cause if self.end_to_end_id else "deposit", self.direction]
        name = "" if self.counterparty is None else self.counterparty.name
        return f"{what}{before_name}{name}" if name else what
