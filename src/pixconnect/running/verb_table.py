"""The command line: a verb's module is imported when the verb is used, so that none waits for another's imports."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from cyclopts import App, CycloptsError, Group, Parameter

from pixconnect import __version__
from pixconnect.doors.cli import failures, settings, terminal, usage
from pixconnect.doors.cli.integrator import credentials
from pixconnect.kernel.feature import Verb, find_module, list_verbs
from pixconnect.platform import environment
from pixconnect.platform.base.errors import PixConnectError

# Name, module and function or group of verbs, and help, which is here so that `--help` imports no module. Features add theirs.
_PARTS = (
    ("run", "running.run_options:run", "Run everything on this machine until interrupted."),
    ("serve", "running.processes:serve", "Serve the API, in one process."),
    ("work", "running.processes:work", "Settle, expire, deliver webhooks, tidy up, in one process."),
    ("console", "running.console:console", "Serve the console, in one process."),
    ("sandbox", "running.processes:sandbox", "Run the simulated rail, in one process."),
    ("migrate", "running.migrate:migrate", "Bring the database's tables up to date."),
    ("systemd", "running.systemd:app", "The service under systemd."),
    ("doctor", "running.doctor:doctor", "Check this machine and the service, and print the remedies."),
    ("completion", "running.verb_table:completion", "Print the completion script of verbs and options for your shell."),
)
_FOR_ONE_HOLDER = (
    ("charge", "doors.cli.integrator.charge:app", "Create, list and show charges: requests to be paid, each with a QR code."),
    ("transfer", "doors.cli.integrator.transfer:app", "Send money, and list transfers sent and received."),
    ("refund", "doors.cli.integrator.refund:app", "Refund payments that you received."),
    ("profile", "doors.cli.integrator.profile:app", "Credentials under a name."),
)
_FOR_OPERATORS = (
    ("holder", "doors.cli.operator:app", "Account holders."),
    ("key", "doors.cli.operator:key_app", "Manage holders' Pix keys."),
    ("audit", "doors.cli.operator:audit_app", "What operators did."),
)

_INTRODUCTION = (
    f"pixconnect {__version__}: Pix for account holders, with a sandbox to try everything in.",
    "",
    "  pixconnect run            start all of it on this machine",
    "  pixconnect charge create  ask to be paid: a QR code",
    "  pixconnect pay CHARGE     pay it, as a payer elsewhere",
    "  pixconnect listen --forward-to http://localhost:3000/",
    "                            post every event to your program",
    "  pixconnect doctor         find out what is wrong",
    "",
    "`pixconnect --help` lists all verbs.",
)

app = App(
    name="pixconnect",
    help="Pix for account holders. Settings are environment variables; PIXCONNECT_HOME names the installation. Times and days "
    "are those of Sao Paulo, in JSON UTC.",
    version=__version__,
    # A wrong word gets one line, like every other failure.
    print_error=False,
    exit_on_error=False,
    # `main` decides how a verb ends.
    result_action="return_value",
)
_GROUPS = {
    "running": Group("The service", sort_key=0),
    "integrator": Group("For one holder, through the API", sort_key=1),
    "operator": Group("For operators, on the database", sort_key=2),
}
VERBS: Final = (
    *(Verb("running", name, place, text) for name, place, text in _PARTS),
    *(Verb("integrator", name, place, text) for name, place, text in _FOR_ONE_HOLDER),
    *(Verb("operator", name, place, text) for name, place, text in _FOR_OPERATORS),
    *list_verbs(*_GROUPS),
)
for _verb in VERBS:
    app.command(find_module(_verb.place), name=_verb.name, help=_verb.help, group=_GROUPS[_verb.group])


# Options common to all verbs stand below the verb's own.
app.meta.group_parameters = Group("For every verb", sort_key=9)


@app.meta.default
def launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    operator: str | None = None,
    profile: str | None = None,
    field: str | None = None,
) -> None:
    """Run one verb.

    Args:
        words: The verb and its arguments.
        operator: Your name in the audit; by default PIXCONNECT_OPERATOR, or else the system's user and host.
        profile: The profile whose credentials a holder's verbs use; by default PIXCONNECT_PROFILE, or else the
            environment's own, or those of the home's demonstration.
        field: Print only this member of the result, such as `end_to_end_id` or `payer.name`: plain text for a script.
    """
    settings.operator.set(operator)
    credentials.profile.set(profile)
    terminal.field.set(field)
    if field is not None and "--json" not in words:
        words = (*words, "--json")
    for line in environment.misspelt_variables():
        terminal.complain(line)
    if words[:1] == ("version",):
        words = ("--version",)
    if words[:1] == ("help",):
        words = (*words[1:], "--help")
    # Without a verb the introduction is printed, and would be for an unknown one too.
    if words and not words[0].startswith("-") and words[0] not in app:
        raise failures.CommandError(usage.explain_unknown(words[0], usage.list_verbs(app)))
    try:
        app(words)
    except (PixConnectError, failures.RefusedByService) as error:
        # The fields of our records are not the typed words.
        named = usage.name_option(str(error), app, words)
        raise failures.CommandError(named, status=failures.find_status(error)) from error


@app.default
def introduce() -> None:
    """Print an introduction and the first steps."""
    for line in _INTRODUCTION:
        terminal.print_line(line)


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a shell's completion of these words.

    For bash write it to `~/.local/share/bash-completion/completions/pixconnect`, for zsh to a file `_pixconnect` in a folder of
    `$fpath`, for fish to `~/.config/fish/completions/pixconnect.fish`.

    Args:
        shell: Which.
    """
    terminal.print_line(app.generate_completion(prog_name="pixconnect", shell=shell))


def run_verb(words: Sequence[str]) -> None:
    """Run one verb; ``CommandError`` for words that none takes."""
    for number, word in enumerate(words, 1):
        # The database can store neither; the system passes octets that are not UTF-8 as surrogates.
        if "\0" in word or (not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word)):
            raise failures.CommandError(f"word {number} of the command is not UTF-8, or has a NUL in it")
    if terminal.wants_no_style() and not {"--help", "-h", "help"}.isdisjoint(words):
        from rich.console import Console  # noqa: PLC0415  it takes longer to import than most verbs

        # Without it, help without colours still has bold letters.
        app.console = Console(color_system=None)
    try:
        app.meta(words)
    except CycloptsError as error:
        raise failures.CommandError(usage.explain(error)) from error
