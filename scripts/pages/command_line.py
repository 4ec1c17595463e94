"""``docs/reference/cli.md``, from the program's own help."""

import ast
import inspect
from collections.abc import Iterator

from cyclopts import App
from cyclopts.argument import Argument

from pixconnect.doors.cli import usage
from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.running.verb_table import app


def write_page() -> str:
    """``docs/reference/cli.md``."""
    lines = [
        "# Command line",
        "",
        "Every verb with its options. Written by `make docs` from the program's own help (`pixconnect VERB --help`).",
        "",
        "The program is `.venv/bin/pixconnect`; `make run` prints an alias `pixconnect` for your shell, with its home.",
        "",
        "- [Settings](settings.md) are environment variables.",
        "- An error is one line on standard error, with an exit status other than 0.",
        "- `--json` prints one object for scripts. On a terminal lists are tables if they fit, and states have colours unless",
        "  `NO_COLOR` is set.",
        "- Amounts are in cents. Words in capitals are arguments, in their order: `pixconnect charge create 1000`.",
        "- A number is first the service's id, then your `external_id`. If both exist, a line on standard error names the",
        "  chosen one; `--external-id` selects the other.",
        "- One holder's verbs (`charge`, `transfer`, `pay`, ...) use the API. The first of these selects the account:",
        "  `--profile NAME` or `PIXCONNECT_PROFILE` (from `pixconnect profile add`); `PIXCONNECT_API_URL`,",
        "  `PIXCONNECT_CLIENT_ID` and `PIXCONNECT_CLIENT_SECRET`; the demonstration of the sandbox on `PIXCONNECT_HOME`. A",
        "  verb of the sandbox refuses a live service before it sends anything.",
        "",
        "| Exit status | |",
        "|---|---|",
        *(f"| {status.value} | {meaning} |" for status, meaning in _read_statuses()),
    ]
    for words, verb in _walk(app, ("pixconnect",)):
        lines += ["", f"{'#' * min(len(words), 3)} {' '.join(words)}", "", _summary(verb)]
        options = _options(verb)
        if options:
            lines += ["", "| Option | Default | |", "|---|---|---|"]
            lines += [f"| `{usage.spell(option)}` | {_default(option)} | {_help(option)} |" for option in options]
    return "\n".join(lines) + "\n"


def _read_statuses() -> Iterator[tuple[ExitStatus, str]]:
    """Each exit status with the sentence under it."""
    (statuses,) = (node for node in ast.parse(inspect.getsource(ExitStatus)).body if isinstance(node, ast.ClassDef))
    body = statuses.body[1:]
    for name, meaning in zip(body[::2], body[1::2], strict=True):
        assert isinstance(name, ast.Assign)
        assert isinstance(meaning, ast.Expr)
        yield ExitStatus[ast.unparse(name.targets[0])], ast.literal_eval(meaning.value)


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
    """The help of a verb, up to its arguments."""
    text = inspect.getdoc(verb.default_command) if verb.default_command is not None else None
    return (text or verb.help).split("\n\nArgs:")[0].strip()


def _default(option: Argument) -> str:
    if option.required:
        return "required"
    default = option.field_info.default
    # A repeated argument may be left out, and has no default.
    return "" if default in {None, False, (), inspect.Parameter.empty} else f"`{default}`"


def _help(option: Argument) -> str:
    choices = option.get_choices()
    word = "Or" if len(choices or ()) == 1 else "One of"
    listed = f" {word} {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"{option.parameter.help or ''}{listed}".strip()
