"""Describes an error of a command line in one line, by the typed options and their types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args, get_origin

from cyclopts import App, CycloptsError
from cyclopts.argument import Argument
from cyclopts.exceptions import CoercionError, MissingArgumentError, UnknownCommandError, UnusedCliTokensError, ValidationError

# For an item of a list, such as a rule, the field without its index.
_FIELD: Final = re.compile(r"(?:[a-z_]+\[\d+\]\.)?([a-z_]+)((?:\.[a-z_]+)*)(?:\[\d+\])?: ")
_REAIS: Final = re.compile(r"([0-9]+)[.,]([0-9]{2})")
# Differences from the API: for a transfer, a key and a code are one word, and an account is one option.
_TYPED_AS: Final = dict(
    key="to", emv="to", credit_party_tax_id="tax_id", credit_party_name="name", credit_party="account", file="statement"
)
_FEW_WORDS: Final = 6
_KINDS: Final = dict[object, str](((int, "a whole number"), (bool, "true or false"), (str, "text")))


def explain(error: CycloptsError) -> str:
    error.verbose = False
    argument, verb = error.argument, " ".join(("pixconnect", *(error.command_chain or ())))
    match error:
        case MissingArgumentError() if argument is not None:
            if argument.tokens or error.keyword is not None:
                return f"{error.keyword or argument.name}: needs a value; it must be {_describe(argument)}"
            return f"{spell(argument)}: missing; {_guess(argument, error.unused_tokens or ()) or f'see `{verb} --help`'}"
        case CoercionError(token=token) if argument is not None and token is not None and error.msg is None:
            reais = _REAIS.fullmatch(token.value) if argument.name.endswith(("-limit", "amount")) else None
            in_cents = f", which in cents is {int(reais[1] + reais[2])}" if reais else ""
            words = list_words(argument)
            near = _find_near(token.value, words)
            several = token.value.split(",")
            if len(several) > 1 and set(several) <= set(words):
                option = token.keyword or spell(argument)
                return f"{option}: takes one at a time: {' '.join(f'{option} {word}' for word in several)}"
            # Among a few words it is obvious.
            meant = f"; did you mean {near[0]}?" if near and len(words) > _FEW_WORDS else ""
            must = _describe(argument)
            return f"{token.keyword or spell(argument)}: must be {must}; it is {token.value!r}{in_cents}{meant}"
        case ValidationError() if argument is not None and argument.tokens:
            token = argument.tokens[0]
            rule = error.exception_message.removesuffix(".")
            return f"{token.keyword or spell(argument)}: {rule[:1].lower()}{rule[1:]}; it is {token.value!r}"
        case UnknownCommandError() | UnusedCliTokensError():
            unknown, verbs = error.unused_tokens or [""], list_verbs(error.app)
            # A word in the place of a verb was meant as one, even in groups that also work without.
            if verbs:
                return explain_unknown(unknown[0], verbs, verb)
            count = "one word" if len(unknown) == 1 else f"{len(unknown)} words"
            return f"{' '.join(unknown)}: {count} too many; see `{verb} --help`"
        case _:
            return str(error)


def _find_near(word: str, words: Sequence[str]) -> list[str]:
    """Return the probable word; empty if only the family of a name is right, and its last part is another word."""
    family, _, last = word.rpartition(".")
    if ends := [each.removeprefix(f"{family}.") for each in words if family and each.startswith(f"{family}.")]:
        return [f"{family}.{end}" for end in difflib.get_close_matches(last, ends, n=1)]
    return difflib.get_close_matches(word, words, n=1)


def explain_unknown(word: str, verbs: Sequence[str], group: str = "pixconnect") -> str:
    near = difflib.get_close_matches(word, verbs, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{word}: there is no such verb; {meant}`{group} --help` lists all"


def list_verbs(app: App | None) -> Sequence[str]:
    return [name for name in app or () if not name.startswith("-")]


def spell(argument: Argument) -> str:
    """Return the argument's name in help: a positional argument has no option's name."""
    return argument.name.lstrip("-").upper() if argument.field_info.is_positional else argument.name


def name_option(message: str, app: App, words: Sequence[str]) -> str:
    """Return a refusal with the typed option in place of its field, if the verb has such an option, or with the file's name."""
    field = _FIELD.match(message)
    if field is None:
        return message
    options = _find_options(app, words)
    # One option may be a whole member, as --rebate is; and amounts have their unit in the field's name, not in the option's.
    names = (field[1] + field[2].replace(".", "_"), field[1])
    typed = (*names, *(_TYPED_AS[name] for name in names if name in _TYPED_AS))
    spelled = ["--" + name.removesuffix("_cents").replace("_", "-") for name in typed]
    option = next((each for each in spelled if each in options), None)
    if option is None:
        return message
    argument = options[option]
    if Path in _list_types(argument):
        match app.parse_args(words)[1].arguments.get(argument.field_info.name):
            case (Path() as file) | [Path() as file]:
                return f"{file}: {message[field.end() :]}"
            case _:
                pass  # none, or several
    is_typed = any(word.partition("=")[0] == option for word in words)
    return f"{option if is_typed else spell(argument)}: {message[field.end() :]}"


def _guess(argument: Argument, unused: Sequence[str]) -> str:
    options = [token.partition("=")[0] for token in unused if token.startswith("--")]
    if near := difflib.get_close_matches(argument.name, options, n=1):
        return f"you wrote {near[0]}"
    # A person who omits only the option's name has given its value, and nothing else.
    words = list_words(argument)
    is_its_value = len(unused) == 1 and not options and (not words or unused[0] in words)
    return f"write {argument.name} {unused[0]}" if is_its_value else ""


def _find_options(app: App, words: Sequence[str]) -> dict[str, Argument]:
    verb = app
    for word in words:
        if word.startswith("-") or word not in verb:
            break
        verb = verb[word]
    return {name: argument for argument in verb.assemble_argument_collection() for name in argument.names}


def _describe(argument: Argument) -> str:
    kinds: list[str] = []
    for one in _list_types(argument):
        if get_origin(one) is Literal:
            kinds += get_args(one)
        elif one in _KINDS:
            kinds.append(_KINDS[one])
    return " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds) or "a value"


def list_words(argument: Argument) -> list[str]:
    """List an option's permitted words, if these are fixed."""
    return [word for one in _list_types(argument) if get_origin(one) is Literal for word in get_args(one)]


def _list_types(argument: Argument) -> tuple[object, ...]:
    hint = argument.hint
    return get_args(hint) if get_origin(hint) is not None and get_origin(hint) is not Literal else (hint,)
