"""The command line: a verb's module is imported when the verb is used, so that none waits for another's imports."""

from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from pixconnect import __version__, config
from pixconnect.cli import failures, settings, terminal, usage
from pixconnect.domain.errors import PixConnectError
from pixconnect.foundation.exception_text import hide_rows_in_tracebacks

# Name, module and function or group of verbs, and help, which is here so that `--help` imports no module.
_VERBS = (
    ("run", "run:run", "Run everything on this machine until interrupted."),
    ("serve", "processes:serve", "Serve the API, in one process."),
    ("work", "processes:work", "Settle, expire, deliver webhooks, tidy up, in one process."),
    ("sandbox", "processes:sandbox", "Run the simulated rail, in one process."),
    ("migrate", "migrate:migrate", "Bring the database's tables up to date."),
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

app = App(
    name="pixconnect",
    help="Pix for account holders. Settings are environment variables; PIXCONNECT_HOME names the installation.",
    version=__version__,
    # What is wrong with its words is told as everything else is, in one line.
    print_error=False,
    exit_on_error=False,
)
for _name, _target, _help in _VERBS:
    app.command(f"pixconnect.cli.{_target}", name=_name, help=_help)


@app.meta.default
def launch(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)], operator: str | None = None
) -> None:
    """Run one verb.

    Args:
        words: The verb and what it is told.
        operator: Your name in the audit; by default PIXCONNECT_OPERATOR, or else the system's user and host.
    """
    settings.operator.set(operator)
    for line in config.misspelt_variables():
        terminal.complain(line)
    try:
        app(words)
    except PixConnectError as error:
        # The fields of our records are not what was typed.
        raise failures.CommandError(usage.name_option(error.message, app, words)) from error


def main() -> int:
    """Run one verb, and answer its exit status."""
    hide_rows_in_tracebacks()
    try:
        app.meta()
    except KeyboardInterrupt:
        # As a shell reports a program that SIGINT ended.
        return 130
    except CycloptsError as error:
        terminal.complain(usage.explain(error))
        return 1
    except Exception as error:
        line = failures.explain(error)
        # A defect of ours keeps its traceback.
        if line is None:
            raise
        terminal.complain(line)
        return 1
    return 0
