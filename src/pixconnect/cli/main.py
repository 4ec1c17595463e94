"""The command line: every verb, found where it is defined only when it is used, so that none waits for another's imports."""

from cyclopts import App

from pixconnect import __version__
from pixconnect.cli import failures, terminal

# A verb, the function or the group of verbs that it is, and what it does.
_VERBS = (
    ("run", "run:run", "Run everything on this machine until interrupted."),
    ("serve", "processes:serve", "Serve the API, in one process."),
    ("work", "processes:work", "Settle, expire, deliver webhooks, tidy up, in one process."),
    ("sandbox", "processes:sandbox", "Be the simulated rail, in one process."),
    ("migrate", "migrate:migrate", "Bring the database's tables up to date."),
    ("holder", "holder:app", "Account holders."),
    ("client", "client:app", "The OAuth clients of holders."),
    ("key", "key:app", "The Pix keys of holders."),
    ("transfer", "transfer:app", "Transfers on their way."),
    ("signing-key", "signing_key:app", "The keys that sign tokens, QR codes and webhooks."),
)

app = App(
    name="pixconnect",
    help="Pix for account holders. Settings are environment variables; PIXCONNECT_HOME names the installation.",
    version=__version__,
)
for _name, _place, _help in _VERBS:
    app.command(f"pixconnect.cli.{_place}", name=_name, help=_help)


def main() -> int:
    """Run one verb; what the operator can mend is said in one line."""
    try:
        app()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        line = failures.explain(error)
        if line is None:
            raise
        terminal.complain(line)
        return 1
    return 0
