"""``docs/reference/settings.md``, from the record of settings."""

import ast
import inspect
from dataclasses import fields
from itertools import pairwise

from msgspec import inspect as types

from pixconnect import config
from pixconnect.config import Settings

_UNITS = {"_s": "s", "_ms": "ms", "_days": "days"}
_DEFECT = "a type that this page cannot describe"


def write_page() -> str:
    """``docs/reference/settings.md``."""
    meanings = _read_meanings()
    lines = [
        "# Settings",
        "",
        "Every setting, its default and what it means. Written by `make docs` from `src/pixconnect/config.py`;",
        "`environment.py` beside it reads them, and nothing else does.",
        "",
        "Every setting is an environment variable. Its name ends in its unit. `PORT` and `DATABASE_URL` may also be set",
        "without `PIXCONNECT_` before them; where both are set, the longer name counts. A value that a setting cannot have",
        "stops the program with one line that names the variable and the rule. One that is empty counts as not set. A verb",
        "complains of a variable that begins with `PIXCONNECT_` and is no setting, and goes on.",
        "",
        "A secret may stand in a file instead, such as an orchestrator mounts, that the variable with `_FILE` after its name",
        "names: `PIXCONNECT_SECRET_KEY_FILE=/run/secrets/key`. Both at once is an error, and so is what is no",
        "regular file, such as a FIFO, or is longer than 4 MiB. These are secrets:",
        ", ".join(f"`PIXCONNECT_{name.upper()}`" for name in config.SECRETS) + ".",
        "The service warns at its start, in one line, of a file or a home that others can read.",
        "",
        "The operator's verbs (`pixconnect holder create` and its like) take the database and the secret key of a running",
        "`pixconnect run` from its home: beside one, `PIXCONNECT_HOME` is all that they need. What `run` itself was given as a",
        "secret is written nowhere: the verbs read its file, or on Linux the memory of the running process.",
        "",
    ]
    allowed = {field.name: field.type for field in _record().fields}
    defaults = {field.name: field.default for field in fields(Settings)}
    for concern in config.CONCERNS:
        heading = (concern.__doc__ or "").rstrip(".")
        lines += ["", f"## {heading}", "", "| Variable | Default | Values | Meaning |", "|---|---|---|---|"]
        for name in concern.__annotations__:
            default = "empty" if defaults[name] == "" else f"`{defaults[name]}`{_unit(name)}"
            values = _values(allowed[name])
            lines.append(f"| `PIXCONNECT_{name.upper()}` | {default} | {values} | {meanings[name]} |")
    return "\n".join(lines) + "\n"


def _read_meanings() -> dict[str, str]:
    """The sentence under each setting."""
    records = [ast.parse(inspect.getsource(concern)).body[0] for concern in config.CONCERNS]
    found: dict[str, str] = {}
    for setting, meaning in (
        pair for record in records if isinstance(record, ast.ClassDef) for pair in pairwise(record.body)
    ):
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name):
            assert isinstance(meaning, ast.Expr), f"{setting.target.id} has no meaning under it"
            assert isinstance(meaning.value, ast.Constant), f"{setting.target.id} has no meaning under it"
            found[setting.target.id] = " ".join(str(meaning.value.value).replace("``", "`").split())
    return found


def _record() -> types.DataclassType:
    found = types.type_info(Settings)
    assert isinstance(found, types.DataclassType), _DEFECT
    return found


def _values(kind: types.Type) -> str:
    match kind:
        case types.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case types.IntType(ge=None):
            return "an integer"
        case types.IntType(ge=lowest, le=None):
            return f"from {lowest}"
        case types.IntType(ge=lowest, le=highest):
            return f"{lowest} to {highest}"
        case types.Metadata(type=kind):
            return _values(kind)
        case types.StrType(pattern=None):
            return "text"
        case types.StrType(pattern=pattern):
            return f"`{pattern}`"
        case _:
            raise AssertionError(_DEFECT)


def _unit(name: str) -> str:
    return next((f" {unit}" for ending, unit in _UNITS.items() if name.endswith(ending)), "")
