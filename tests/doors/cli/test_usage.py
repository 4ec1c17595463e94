"""Wrong arguments are reported as they were typed."""

import shlex
from collections.abc import Iterator
from typing import get_args

import pytest
from cyclopts import App, CycloptsError

from pixconnect.doors.cli import usage
from pixconnect.doors.cli.whole_number import read_limit, read_whole_number
from pixconnect.running.main import main
from pixconnect.running.verb_table import app

CREATE = "holder create --name Ana --tax-id 52998224725 --account-number 1"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("holder create", "--name: missing; see `pixconnect holder create --help`"),
        ("holder create --naem Ana", "--name: missing; you wrote --naem"),
        ("holder show 1", "--holder-id: missing; write --holder-id 1"),
        ("holder show --holder-id", "--holder-id: needs a value; it must be a whole number"),
        ("holder show --holder-id one", "--holder-id: must be a whole number; it is 'one'"),
        ("holder show --holder-id 0", "--holder-id: must be >= 1; it is '0'"),
        (
            f"{CREATE} --transfer-limit 50,00",
            "--transfer-limit: must be a whole number or none; it is '50,00', which in cents is 5000",
        ),
        (f"{CREATE} --day-limit much", "--day-limit: must be a whole number or none; it is 'much'"),
        (
            f"{CREATE} --account-type PAYMENT",
            "--account-type: must be CHECKING, SAVINGS, SALARY or TRANSACTIONAL; it is 'PAYMENT'",
        ),
        ("key add --holder-id 1 --key-type MAIL", "--key-type: must be CPF, CNPJ, PHONE, EMAIL or EVP; it is 'MAIL'"),
        (
            "client create --holder-id 1 --scope charge.read,charge.write",
            "--scope: takes one at a time: --scope charge.read --scope charge.write",
        ),
        ("key add --holder-id 1 a@b.example", "--key-type: missing; see `pixconnect key add --help`"),
        ("key add --holder-id 1 EVP", "--key-type: missing; write --key-type EVP"),
        ("audit list 3", "3: one word too many; see `pixconnect audit list --help`"),
        ("report close 1", "--reason: missing; see `pixconnect report close --help`"),
        ("charge create 10.50", "AMOUNT: must be a whole number; it is '10.50', which in cents is 1050"),
        ("transfer create 10.99 someone", "AMOUNT: must be a whole number; it is '10.99', which in cents is 1099"),
        ("charge create 0x10", "AMOUNT: must be a whole number; it is '0x10'"),
        ("charge create 1_000", "AMOUNT: must be a whole number; it is '1_000'"),
        ("charge create --amount 1.5", "--amount: must be a whole number; it is '1.5'"),
        ("charge create", "AMOUNT: missing; see `pixconnect charge create --help`"),
        ("clock advance", "SPAN: missing; see `pixconnect clock advance --help`"),
        ("clock advnace 1m", "advnace: there is no such verb; did you mean advance? `pixconnect clock --help` lists all"),
        ("balance a b", "a b: 2 words too many; see `pixconnect balance --help`"),
        ("charge list --limit 1.9", "--limit: must be a whole number; it is '1.9'"),
        ("pay ''", "CODE: must not be empty; a shell variable may have no value; it is ''"),
        ("charge show ''", "CHARGE: must not be empty; a shell variable may have no value; it is ''"),
    ],
)
def test_a_wrong_word_is_told_with_what_it_must_be(words: str, complaint: str) -> None:
    with pytest.raises(CycloptsError) as refused:
        app(shlex.split(words))
    assert usage.explain(refused.value) == complaint


@pytest.mark.parametrize(
    ("message", "words", "shown"),
    [
        ("tax_id: is none", "holder create --tax-id 1", "--tax-id: is none"),
        ("night_limit_cents: is too much", "holder set --night-limit=9", "--night-limit: is too much"),
        ("effect: is none", "faults add reject", "EFFECT: is none"),
        ("effect: is none", "faults add --effect=reject", "--effect: is none"),
        ("rebate.value: is too much", "charge create 5 --rebate 5", "--rebate: is too much"),
        ("discount.dated[0]: is too late", "charge create 5 --discount 5@2026-11-20", "--discount: is too late"),
        ("key: is no EMAIL", "transfer create 1000 fulano@", "TO: is no EMAIL"),
        ("emv: must end in field 63", "transfer create 1000 000201", "TO: must end in field 63"),
        ("credit_party.tax_id: is none", "transfer create 5 --account 1/1/1 --tax-id 1", "--tax-id: is none"),
        ("credit_party.ispb: is none", "transfer create 5 --account 1/1/1", "--account: is none"),
        ("key: is none", "charge create 5 --key a", "--key: is none"),
        ("payer.name: is none", "charge create 5 --payer-name=-", "--payer-name: is none"),
        ("file: is cut off", "institution statement loja july.ofx", "july.ofx: is cut off"),
        ("file: is no TOML", "institution rotate loja --file=loja.toml", "loja.toml: is no TOML"),
        ("file: is no OFX", "institution close loja --statement last.ofx", "last.ofx: is no OFX"),
        ("heads: line 1: no head", "verify --heads a.jsonl", "a.jsonl: line 1: no head"),
        ("heads: line 1: no head", "verify --heads a.jsonl --heads b.jsonl", "--heads: line 1: no head"),
        ("file: none waits", "institution statement loja", "FILE: none waits"),
        ("nothing.at.all[3]: of that kind", "charge create 5", "nothing.at.all[3]: of that kind"),
        ("nothing: of that kind", "holder set", "nothing: of that kind"),
        ("holder_id: there is none", "audit list", "holder_id: there is none"),
        ("the account is locked", "holder set", "the account is locked"),
    ],
)
def test_a_refusal_names_the_option_and_not_the_field(message: str, words: str, shown: str) -> None:
    assert usage.name_option(message, app, words.split()) == shown


@pytest.mark.parametrize("words", ["chrage", "chrage list --status PENDING", "--profile shop chrage list"])
def test_a_first_word_that_is_no_verb_is_told_with_the_nearest(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 1
    told = "pixconnect: chrage: there is no such verb; did you mean charge? `pixconnect --help` lists all\n"
    assert capsys.readouterr().err == told


def list_verbs(group: App) -> Iterator[App]:
    for name in group:
        if not name.startswith("-"):
            yield from list_verbs(group[name])
    if group.default_command is not None:
        yield group


def test_every_number_is_read_as_it_is_written() -> None:
    """The parser alone would take 10.50 for 10 and 0x10 for 16."""
    numbers = [
        argument
        for verb in list_verbs(app)
        for argument in verb.assemble_argument_collection()
        if int in (argument.hint, *get_args(argument.hint))
    ]
    assert len(numbers) > 40
    assert [one.name for one in numbers if one.parameter.converter not in {read_whole_number, read_limit}] == []
