"""The command line: a verb's module is imported when the verb is used, so that none waits for another's imports."""

import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter

from pixconnect import __version__, config
from pixconnect.cli.frame import failures, settings, terminal, usage
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.integrator import credentials
from pixconnect.domain.frame.errors import PixConnectError
from pixconnect.foundation.exception_text import hide_rows_in_tracebacks

# Name, module and function or group of verbs, and help, which is here so that `--help` imports no module.
_PARTS = (
    ("run", "run:run", "Run everything on this machine until interrupted."),
    ("serve", "processes:serve", "Serve the API, in one process."),
    ("work", "processes:work", "Settle, expire, deliver webhooks, tidy up, in one process."),
    ("console", "console:console", "Serve the console, in one process."),
    ("sandbox", "processes:sandbox", "Run the simulated rail, in one process."),
    ("migrate", "migrate:migrate", "Bring the database's tables up to date."),
    ("doctor", "doctor:doctor", "Look for what could be wrong here, and say what to do about it."),
    ("completion", "completion:completion", "Print what lets a shell complete these words."),
)
FOR_ONE_HOLDER = (
    ("listen", "listen:listen", "Print events as they come, and post them to a program on this machine."),
    ("trigger", "trigger:trigger", "Sandbox: make any event happen, for real."),
    ("charge", "charge:app", "Be paid: a charge is a QR code."),
    ("transfer", "transfer:app", "Send money, and see what was sent and received."),
    ("refund", "refund:app", "Give back what you received."),
    ("balance", "balance:balance", "Print what is in the account."),
    ("statement", "statement:statement", "Print the account's history, or write it to a file."),
    ("events", "events:app", "What happened: list it, show it, send it again."),
    ("endpoint", "endpoint:app", "Where webhooks are posted."),
    ("pay", "outside:pay", "Sandbox: let somebody outside pay a charge of yours."),
    ("receive", "outside:receive", "Sandbox: let somebody outside send money to you."),
    ("return", "outside:give_back", "Sandbox: let the receiver of a transfer give it back."),
    ("deposit", "outside:deposit", "Sandbox: put play money into your account."),
    ("clock", "clock:app", "Sandbox: the time."),
    ("faults", "faults:app", "Sandbox: how the network misbehaves."),
    ("profile", "profile:app", "Credentials under a name."),
)
_FOR_OPERATORS = (
    ("holder", "holder:app", "Account holders."),
    ("client", "client:app", "The OAuth clients of holders."),
    ("key", "key:app", "The Pix keys of holders."),
    ("report", "report:app", "Reports of the rail that wait for an operator."),
    ("find", "find:find", "Print what has an id, or what the rail has not ended, of all holders."),
    ("database", "database:app", "The database under the service."),
    ("operator", "operator:app", "What operators do about what holders own."),
    ("audit", "audit:app", "What operators did."),
    ("signing-key", "signing_key:app", "The keys that sign tokens, QR codes and webhooks."),
    ("secrets", "secrets:app", "Secrets at rest, when the secret key is replaced."),
)

_INTRODUCTION = (
    f"pixconnect {__version__}: Pix for account holders, with a sandbox to try everything in.",
    "",
    "  pixconnect run            start all of it on this machine",
    "  pixconnect charge create  ask to be paid: a QR code",
    "  pixconnect pay CHARGE     pay it, as somebody outside would",
    "  pixconnect listen --forward-to http://localhost:3000/",
    "                            post every event to your program",
    "  pixconnect doctor         find out what is wrong",
    "",
    "`pixconnect --help` lists all verbs.",
)

app = App(
    name="pixconnect",
    help="Pix for account holders. Settings are environment variables; PIXCONNECT_HOME names the installation.",
    version=__version__,
    # What is wrong with its words is told as everything else is, in one line.
    print_error=False,
    exit_on_error=False,
    # How a verb ends is for `main` to say.
    result_action="return_value",
)
for _number, (_title, _folder, _verbs) in enumerate(
    (
        ("The service", "running", _PARTS),
        ("For one holder, through the API", "integrator", FOR_ONE_HOLDER),
        ("For operators, on the database", "operator", _FOR_OPERATORS),
    )
):
    _group = Group(_title, sort_key=_number)
    for _name, _target, _help in _verbs:
        app.command(f"pixconnect.cli.{_folder}.{_target}", name=_name, help=_help, group=_group)


# What every verb takes stands below what one takes.
app.meta.group_parameters = Group("For every verb", sort_key=9)


@app.meta.default
def launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    operator: str | None = None,
    profile: str | None = None,
) -> None:
    """Run one verb.

    Args:
        words: The verb and what it is told.
        operator: Your name in the audit; by default PIXCONNECT_OPERATOR, or else the system's user and host.
        profile: The profile whose credentials a holder's verbs use; by default PIXCONNECT_PROFILE, or else the
            environment's own, or those of the home's demonstration.
    """
    settings.operator.set(operator)
    credentials.profile.set(profile)
    for line in config.misspelt_variables():
        terminal.complain(line)
    if words[:1] == ("help",):
        words = (*words[1:], "--help")
    # Without a verb we say what there is, and so would with one that there is not.
    if words and not words[0].startswith("-") and words[0] not in app:
        raise failures.CommandError(usage.explain_unknown(words[0], usage.list_verbs(app)))
    try:
        app(words)
    except (PixConnectError, failures.RefusedByService) as error:
        # The fields of our records are not what was typed.
        raise failures.CommandError(usage.name_option(str(error), app, words)) from error


@app.default
def introduce() -> None:
    """Say what this is, and what people need first."""
    for line in _INTRODUCTION:
        terminal.say(line)


def _write_help_plainly(words: Sequence[str]) -> None:
    """Keep also bold letters out of help, which its own writer leaves there, where somebody asks for no colours."""
    if terminal.wants_no_style() and not {"--help", "-h", "help"}.isdisjoint(words):
        from rich.console import Console  # noqa: PLC0415  it takes longer to import than most verbs

        app.console = Console(color_system=None)


def main(words: Sequence[str] | None = None) -> int:
    """Run one verb, by default that of the command line, and answer its exit status."""
    hide_rows_in_tracebacks()
    try:
        _write_help_plainly(sys.argv[1:] if words is None else words)
        app.meta(words)
    except KeyboardInterrupt:
        # As a shell reports a program that SIGINT ended.
        return ExitStatus.INTERRUPTED
    except terminal.ReaderGone:
        return ExitStatus.READER_GONE
    except CycloptsError as error:
        terminal.complain(usage.explain(error))
        return ExitStatus.REFUSED
    except Exception as error:
        line = failures.explain(error)
        # A defect of ours keeps its traceback.
        if line is None:
            raise
        terminal.complain(line)
        return error.status if isinstance(error, failures.CommandError) else ExitStatus.REFUSED
    return ExitStatus.DONE
