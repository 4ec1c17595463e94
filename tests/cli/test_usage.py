"""Words that a verb does not take, told in the words that were typed."""

import pytest
from cyclopts import CycloptsError

from pixconnect.cli import usage
from pixconnect.cli.main import app

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
        ("audit list 3", "3: one word too many; see `pixconnect audit list --help`"),
        ("report close 1", "--reason: missing; see `pixconnect report close --help`"),
    ],
)
def test_a_wrong_word_is_told_with_what_it_must_be(words: str, complaint: str) -> None:
    with pytest.raises(CycloptsError) as refused:
        app(words.split())
    assert usage.explain(refused.value) == complaint


@pytest.mark.parametrize(
    ("message", "words", "shown"),
    [
        ("tax_id: is none", "holder create --tax-id 1", "--tax-id: is none"),
        ("night_limit_cents: is too much", "holder set --night-limit=9", "--night-limit: is too much"),
        ("nothing: of that kind", "holder set", "nothing: of that kind"),
        ("holder_id: there is none", "audit list", "holder_id: there is none"),
        ("the account is locked", "holder set", "the account is locked"),
    ],
)
def test_a_refusal_names_the_option_and_not_the_field(message: str, words: str, shown: str) -> None:
    assert usage.name_option(message, app, words.split()) == shown
