"""``docs/reference/settings.md``, from the record of settings."""

import ast
import inspect
from dataclasses import fields
from itertools import pairwise

from msgspec import inspect as types

from pixconnect.platform import config
from pixconnect.platform.config import Settings

_UNITS = {"_s": "s", "_ms": "ms", "_days": "days"}
_DEFECT = "a type that this page cannot describe"


def write_page() -> str:
    """``docs/reference/settings.md``."""
    meanings = _read_meanings()
    lines = [
        "# Settings",
        "",
        "Every setting, its default and its meaning. Written by `make docs` from `src/pixconnect/platform/config.py`; only",
        "`environment.py` beside it reads them.",
        "",
        "Every setting is an environment variable. Its name ends in its unit. `PORT` and `DATABASE_URL` also work without",
        "`PIXCONNECT_`; if both are set, the longer name counts. An invalid value stops the program with one line that names",
        "the variable and the rule. An empty value counts as not set. A verb warns about an unknown variable that begins with",
        "`PIXCONNECT_`, and continues.",
        "",
        "A secret may be in a file: put its path into the variable with `_FILE` after its name, such as",
        "`PIXCONNECT_SECRET_KEY_FILE=/run/secrets/key`. Setting both is an error, and so is a file that is no regular file,",
        "such as a FIFO, or is longer than 4 MiB. These are secrets:",
        ", ".join(f"`PIXCONNECT_{name.upper()}`" for name in config.SECRETS) + ".",
        "The service warns at its start about a file or a home that others can read.",
        "",
        "The operator's verbs (`pixconnect holder create` and its like) take the database and the secret key of a running",
        "`pixconnect run` from its home: they only need `PIXCONNECT_HOME`. Secrets given to `run` are not written: the",
        "verbs read their file, or on Linux the memory of the running process.",
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
    for setting, meaning in (pair for record in records if isinstance(record, ast.ClassDef) for pair in pairwise(record.body)):
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
