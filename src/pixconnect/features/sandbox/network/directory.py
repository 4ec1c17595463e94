"""The key directory (DICT), and the outside accounts that its entries lead to.

Some entries are fixed; each determines the outcome of orders to its account. All outside accounts are at one institution. An
account without an entry is paid like any other.
"""

from typing import Final

from stdnum.br import cnpj

from pixconnect.features.sandbox.network import behaviour
from pixconnect.features.sandbox.network.behaviour import Behaviour, Chance
from pixconnect.features.sandbox.rules import NewKey, OutsidePayer
from pixconnect.kernel.rules import reject_code, tax_id
from pixconnect.kernel.rules.holder import KeyType, Party
from pixconnect.kernel.rules.rail import DirectoryEntry

ISPB: Final = "99999004"
BRANCH: Final = "0001"
BANK: Final = "Outside Bank Sandbox"
DOMAIN: Final = "sandbox.pix.example"
SETTLE_KEY: Final = f"settle@{DOMAIN}"

_NAMES: Final = ("Ana", "Bruno", "Carla", "Diego", "Elisa", "Fabio", "Gabriela", "Hugo", "Irene", "Joaquim")
_SURNAMES: Final = [
    "Almeida",
    "Barros",
    "Cardoso",
    "Duarte",
    "Esteves",
    "Freitas",
    "Gomes",
    "Lima",
    "Moraes",
    "Pereira",
]
_FIRST_REJECT_ACCOUNT: Final = 2001
_FIRST_ADDED_ACCOUNT: Final = 500_000
_CHANCE: Final = Chance(0)  # fixed entries are the same for every seed


def outside_party(
    account_number: str, name: str, owner_tax_id: str, key: str | None = None, key_type: KeyType | None = None
) -> Party:
    return Party(
        account_number=account_number,
        account_type="CHECKING",
        bank=BANK,
        branch=BRANCH,
        ispb=ISPB,
        key=key,
        key_type=key_type,
        name=name,
        tax_id=owner_tax_id,
    )


def entry_of(key: str, key_type: KeyType, account_number: str, name: str, owner_tax_id: str) -> DirectoryEntry:
    return DirectoryEntry(
        key=key, key_type=key_type, party=outside_party(account_number, name, owner_tax_id, key, key_type)
    )


def _list_always_present() -> list[tuple[str, str, str, Behaviour]]:
    # These three come first, in any order of the table of codes: their account numbers stay as they are.
    first_codes = ["AC03", "AC07", "AB03"]
    codes = first_codes + [code for code in reject_code.REASONS if code not in first_codes]
    return [
        ("settle", "1001", "52998224725", behaviour.USUAL),
        ("slow", "1002", _CHANCE.cpf("slow"), behaviour.SLOW),
        ("silent", "1003", _CHANCE.cpf("silent"), behaviour.SILENT),
        ("lost", "1004", _CHANCE.cpf("lost"), behaviour.LOST_INSIDE),
    ] + [
        (f"reject-{code.lower()}", str(number), _CHANCE.cpf(code), Behaviour(code=code))
        for number, code in enumerate(codes, start=_FIRST_REJECT_ACCOUNT)
    ]


_ALWAYS_THERE: Final = _list_always_present()

FIXED_ENTRIES: Final[dict[str, DirectoryEntry]] = {
    f"{name}@{DOMAIN}": entry_of(f"{name}@{DOMAIN}", "EMAIL", account, f"Sandbox {name.capitalize()}", owner)
    for name, account, owner, _ in _ALWAYS_THERE
}

_BEHAVIOURS: Final = {account: how for _, account, _, how in _ALWAYS_THERE}


def behaviour_to(party: Party) -> Behaviour:
    """Return what happens to an order for this account when no fault rule matches."""
    if party.ispb != ISPB or party.branch != BRANCH:
        return behaviour.USUAL
    return _BEHAVIOURS.get(party.account_number, behaviour.USUAL)


def behaviour_of_refund(description: str | None) -> Behaviour:
    """Return what happens to a refund when no fault rule matches: ``reject-ac03`` as its description rejects it."""
    word, _, code = (description or "").partition("-")
    is_rejected = word == "reject" and code.upper() in reject_code.REASONS
    return Behaviour(code=code.upper()) if is_rejected else behaviour.USUAL


def make_entry(new: NewKey, number: int, chance: Chance) -> DirectoryEntry:
    key = new.key or made_up_key(new.key_type, number, chance)
    # A key that is a tax id belongs to the person or company of that id.
    owner_tax_id = new.tax_id or (key if tax_id.is_cpf(key) or tax_id.is_cnpj(key) else chance.cpf("owner", number))
    name = new.name or made_up_name(chance, number)
    return entry_of(key, new.key_type, str(_FIRST_ADDED_ACCOUNT + number), name, owner_tax_id)


def made_up_key(key_type: KeyType, number: int, chance: Chance) -> str:
    match key_type:
        case "CPF":
            return chance.cpf("key", number)
        case "CNPJ":
            first = f"{1 + chance.below(99_999_998, 'key', number):08d}0001"
            return first + cnpj.calc_check_digits(first)
        case "PHONE":
            return f"+55119{chance.below(100_000_000, 'key', number):08d}"
        case "EMAIL":
            return f"person-{number}@{DOMAIN}"
        case "EVP":
            return str(chance.uuid("evp", number))


def make_payer(payer: OutsidePayer, number: int, chance: Chance) -> Party:
    name = payer.name or made_up_name(chance, number)
    return outside_party(str(9_000_000 + number % 1_000_000), name, payer.tax_id or chance.cpf("payer", number))


def made_up_name(chance: Chance, number: int) -> str:
    return f"{_NAMES[chance.below(10, 'name', number)]} {_SURNAMES[chance.below(10, 'surname', number)]}"
