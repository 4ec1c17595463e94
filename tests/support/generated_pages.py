"""The pages about settings, metrics and the command line, written from the program itself.

``python tests/support/generated_pages.py`` writes them again; a test fails while they differ.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from cyclopts import App
from cyclopts.argument import Argument
from msgspec import inspect as types
from msgspec import structs

from pixconnect import config
from pixconnect.api import metrics as api_metrics
from pixconnect.cli.main import app
from pixconnect.config import Settings
from pixconnect.foundation.metrics import Family
from pixconnect.worker import metrics as worker_metrics

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
_HERE = "`python tests/support/generated_pages.py`"
_UNITS = {"_s": "s", "_ms": "ms", "_days": "days"}
_DEFECT = "a type that this page cannot describe"


def write_settings_page() -> str:
    """``docs/reference/settings.md``."""
    meanings = _read_meanings()
    lines = [
        "# Settings",
        "",
        f"Written by {_HERE} from `src/pixconnect/config.py`, which is where settings are read and nowhere else.",
        "",
        "Every setting is an environment variable. Its name ends in its unit. `PORT` and `DATABASE_URL` may also be set",
        "without `PIXCONNECT_` before them; where both are set, the longer name counts. A value that a setting cannot have",
        "stops the program with one line that names the variable and the rule.",
        "",
        "A secret may stand in a file instead, such as an orchestrator mounts, that the variable with `_FILE` after its name",
        "names: `PIXCONNECT_SECRET_KEY_FILE=/run/secrets/key`. Both at once is an error. These are secrets:",
        ", ".join(f"`PIXCONNECT_{name.upper()}`" for name in config.SECRETS) + ".",
        "A file or a home that others can read is complained of in one line at the start.",
        "",
        "The operator's verbs (`pixconnect holder create` and its like) take the database and the secret key of a running",
        "`pixconnect run` from its home: beside one, `PIXCONNECT_HOME` is all that they need. What `run` itself was given as a",
        "secret is written nowhere: the verbs read its file, or on Linux the memory of the running process.",
        "",
        "| Variable | Default | Values | Meaning |",
        "|---|---|---|---|",
    ]
    allowed = {field.name: field.type for field in _struct_type().fields}
    for field in structs.fields(Settings):
        variable = f"`PIXCONNECT_{field.name.upper()}`"
        default = "empty" if field.default == "" else f"`{field.default}`{_unit(field.name)}"
        lines.append(f"| {variable} | {default} | {_values(allowed[field.name])} | {meanings[field.name]} |")
    return "\n".join(lines) + "\n"


def write_cli_page() -> str:
    """``docs/reference/cli.md``."""
    lines = [
        "# Command line",
        "",
        f"Written by {_HERE} from the program's own help (`pixconnect VERB --help`).",
        "",
        "Settings are environment variables, on [a page of their own](settings.md). What is wrong is said in one line on",
        "standard error, and the exit status is then not 0. `--json` prints one object for scripts.",
    ]
    for words, verb in _walk(app, ("pixconnect",)):
        lines += ["", f"{'#' * min(len(words), 3)} {' '.join(words)}", "", _summary(verb)]
        options = _options(verb)
        if options:
            lines += ["", "| Option | Default | |", "|---|---|---|"]
            lines += [f"| `{option.names[0]}` | {_default(option)} | {_help(option)} |" for option in options]
    return "\n".join(lines) + "\n"


def write_metrics_page() -> str:
    """``docs/reference/metrics.md``."""
    lines = [
        "# Metrics",
        "",
        f"Written by {_HERE} from what the processes measure.",
        "",
        "With `PIXCONNECT_METRICS_PORT` set, `serve` and `work` answer `GET /metrics` on that port of 127.0.0.1, in the text",
        "format of Prometheus, without a token. Under `pixconnect run` the worker has that port and the API processes the ones",
        "after it. Each process tells of itself and counts from its start: add over processes, except where it says *of all",
        "workers*. While the database is away those are missing, and the others still there.",
        "",
        "What is measured is read when somebody asks. Nothing else is done for it but to count.",
    ]
    for title, families in (("An API process", api_metrics.FAMILIES), ("A worker", worker_metrics.FAMILIES)):
        lines += ["", f"## {title}", "", "| Name | Kind | Labels | Meaning |", "|---|---|---|---|"]
        lines += [_describe(family) for family in families]
    return "\n".join(lines) + "\n"


def _describe(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"


def _walk(parent: App, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in parent:
        if not name.startswith("-"):
            yield (*words, name), parent[name]
            yield from _walk(parent[name], (*words, name))


def _options(verb: App) -> list[Argument]:
    if verb.default_command is None:
        return []
    return [option for option in verb.assemble_argument_collection(parse_docstring=True) if option.show]


def _summary(verb: App) -> str:
    """What help says of a verb, before its arguments."""
    text = inspect.getdoc(verb.default_command) if verb.default_command is not None else None
    return (text or verb.help).split("\n\nArgs:")[0].strip()


def _default(option: Argument) -> str:
    if option.required:
        return "required"
    default = option.field_info.default
    return "" if default in {None, False, ()} else f"`{default}`"


def _help(option: Argument) -> str:
    choices = option.get_choices()
    word = "Or" if len(choices or ()) == 1 else "One of"
    listed = f" {word} {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"{option.parameter.help or ''}{listed}".strip()


def _read_meanings() -> dict[str, str]:
    """The sentence under each setting."""
    (settings,) = (
        node
        for node in ast.parse(inspect.getsource(config)).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    )
    found: dict[str, str] = {}
    for setting, meaning in zip(settings.body, settings.body[1:], strict=False):
        if isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name):
            assert isinstance(meaning, ast.Expr), f"{setting.target.id} has no meaning under it"
            assert isinstance(meaning.value, ast.Constant), f"{setting.target.id} has no meaning under it"
            found[setting.target.id] = " ".join(str(meaning.value.value).replace("``", "`").split())
    return found


def _struct_type() -> types.StructType:
    found = types.type_info(Settings)
    assert isinstance(found, types.StructType), _DEFECT
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


def main() -> None:
    """Write them all."""
    (REFERENCE / "settings.md").write_text(write_settings_page(), encoding="utf-8")
    (REFERENCE / "cli.md").write_text(write_cli_page(), encoding="utf-8")
    (REFERENCE / "metrics.md").write_text(write_metrics_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
