"""The docstrings of a record's fields are found, even if a base stands in another file."""

from typing import Annotated

from msgspec import Meta, Struct, field

from pixconnect.doors.api.contract.charge import ChargeListQuery
from pixconnect.doors.api.envelope import ListQuery
from pixconnect.features.documentation.records import describe_fields


class Animal(Struct):
    """It is not described by the sentence that describes its record."""

    name: str
    """Its name."""
    legs_count: Annotated[int, Meta(ge=0)] = field(default=4, name="legs")
    """How many legs it has,
    over two lines.
    """
    is_tame: bool = False

    def speak(self) -> str:
        """No field either."""
        return self.name


class Dog(Animal):
    name: str
    """What it is called by."""


def test_a_field_is_described_by_what_stands_under_it_and_named_as_on_the_wire() -> None:
    assert describe_fields(Animal) == {"name": "Its name.", "legs": "How many legs it has, over two lines."}


def test_fields_are_inherited_with_their_descriptions_unless_they_have_one_of_their_own() -> None:
    assert describe_fields(Dog) == {"name": "What it is called by.", "legs": "How many legs it has, over two lines."}


def test_a_base_may_stand_in_another_file() -> None:
    inherited, own = describe_fields(ListQuery), describe_fields(ChargeListQuery)
    assert own == {**inherited, "status": "Only charges of this status."}
