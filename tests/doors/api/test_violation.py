"""Each kind of invalid value has its own sentence."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, inspect

from pixconnect.assembly.operations import list_operations
from pixconnect.doors.api.violation import alternatives, find_violation


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    word: Annotated[str, Meta(min_length=1, max_length=3)]
    colour: Literal["blue", "red"] | None = None


class Whole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of every kind."""

    number: Annotated[int, Meta(ge=1, le=9)] = 1
    amount: int = 1
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    word: Annotated[str, Meta(min_length=2, max_length=3)] = "ab"
    form: Annotated[str, Meta(pattern="^[a-z]+$")] = "a"
    effect: Annotated[str, Meta(pattern="^(lost|delay:[0-9]+)$", description="One of lost, delay:<ms>.")] = "lost"
    day: Annotated[str, Meta(pattern="^[0-9]+$", description="A day's number.")] | None = None
    colour: Literal["blue", "red"] = "red"
    flag: bool = True
    words: Annotated[list[Annotated[str, Meta(max_length=2)]], Meta(min_length=1, max_length=2)] = []
    colours: list[Literal["blue", "red"]] = []
    parts: list[Part] = []
    part: Part | None = None
    table: dict[str, int] = {}
    either: int | str | None = None
    at: datetime | None = None


class Open(Struct, frozen=True, kw_only=True):
    """A record that ignores unknown members."""

    number: int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "body: must be an object"),
        (None, "body: must be an object"),
        ({"number": "1"}, "number: must be an integer"),
        ({"amount": "10,50"}, "amount: must be an integer number of cents (R$ 10,50 is 1050)"),
        ({"number": 1.0}, "number: must be an integer"),
        ({"number": True}, "number: must be an integer"),
        ({"number": None}, "number: must be an integer"),
        ({"number": 0}, "number: must be at least 1"),
        ({"number": 10}, "number: must be at most 9"),
        ({"share": "1"}, "share: must be a number"),
        ({"share": True}, "share: must be a number"),
        ({"share": -0.5}, "share: must be at least 0.0"),
        ({"share": 2}, "share: must be at most 1.0"),
        ({"word": 1}, "word: must be a string"),
        ({"word": "a"}, "word: must have at least 2 characters"),
        ({"word": "abcd"}, "word: must have at most 3 characters"),
        ({"form": "A"}, "form: must have the declared form"),
        ({"effect": "late"}, "effect: must be one of lost, delay:<ms>"),
        ({"day": "late"}, "day: must be a day's number"),
        ({"colour": 1}, "colour: must be a string"),
        ({"colour": "green"}, "colour: must be one of blue, red"),
        ({"flag": 1}, "flag: must be true or false"),
        ({"words": {}}, "words: must be a list"),
        ({"words": []}, "words: must have at least 1 items"),
        ({"words": ["a", "b", "c"]}, "words: must have at most 2 items"),
        ({"words": ["a", 1]}, "words[1]: must be a string"),
        ({"words": ["a", "abc"]}, "words[1]: must have at most 2 characters"),
        ({"colours": ["red", "green"]}, "colours[1]: must be one of blue, red"),
        ({"parts": [{"word": "a"}, {"word": ""}]}, "parts[1].word: must have at least 1 characters"),
        ({"parts": [{"word": "a", "colour": "green"}]}, "parts[0].colour: must be one of blue, red"),
        ({"parts": [{}]}, "parts[0].word: is required"),
        ({"part": "a"}, "part: must be an object"),
        ({"part": {}}, "part.word: is required"),
        ({"part": {"word": "a", "x": 1}}, "part.x: unknown field"),
        ({"table": []}, "table: must be an object"),
        ({"table": {"a": 1, "b": "2"}}, "table: must be an integer"),
        ({"either": []}, "either: must be an integer or a string"),
        ({"at": 1}, "at: must be a date-time"),
        ({"x" * 70: 1}, "x" * 64 + ": unknown field"),
        ({"a` - at `$.b": 1}, "a` - at `$.b: unknown field"),
    ],
)
def test_a_message_names_the_place_and_the_rule(value: object, message: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, Whole)
    assert find_violation(value, Whole) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": 1, "number": 0}, "x: unknown field"),
        ({"number": 0, "x": 1}, "number: must be at least 1"),
        ({"part": {"colour": "green"}}, "part.colour: must be one of blue, red"),
        ({"part": {}, "number": 0}, "part.word: is required"),
    ],
)
def test_the_first_in_the_order_of_sending_is_told_and_what_is_missing_last(value: object, message: str) -> None:
    assert find_violation(value, Whole) == message


def test_a_record_that_ignores_what_it_does_not_know_is_judged_by_the_rest() -> None:
    assert find_violation({"x": 1, "number": 1}, Open) is None
    assert find_violation({"x": 1}, Open) == "number: is required"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.floats(-1, 2) | st.sampled_from(["", "a", "ab", "red", "ABCD"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*Whole.__struct_fields__, "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([name for name in Whole.__struct_fields__ if name != "at"]), _JSON, max_size=4))
def test_there_is_a_violation_of_what_msgspec_refuses_and_of_nothing_else(value: dict[str, object]) -> None:
    try:
        msgspec.convert(value, Whole)
    except msgspec.ValidationError:
        assert find_violation(value, Whole) is not None
    else:
        assert find_violation(value, Whole) is None


def test_every_request_is_declared_by_rules_that_have_their_sentence() -> None:
    for operation in list_operations(is_sandbox=True):
        for record in (operation.body, operation.query):
            _check_has_sentence(inspect.type_info(record))


def _check_has_sentence(declared: inspect.Type) -> None:
    for kind in alternatives(declared):
        match kind:
            case inspect.StructType():
                assert (kind.tag, kind.array_like) == (None, False)
                for field in kind.fields:
                    _check_has_sentence(field.type)
            case inspect.ListType():
                _check_has_sentence(kind.item_type)
            case inspect.IntType() | inspect.FloatType():
                assert (kind.gt, kind.lt, kind.multiple_of) == (None, None, None)
            case inspect.LiteralType():
                assert all(isinstance(word, str) for word in kind.values)
            case _:
                assert isinstance(kind, inspect.StrType | inspect.BoolType | inspect.NoneType | inspect.DateTimeType)
