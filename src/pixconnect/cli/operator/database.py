"""``pixconnect database``: the server under the service, and how durable it is."""

from cyclopts import App
from msgspec import structs

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.output import Json
from pixconnect.usecases.running import installation as installation_usecases

app = App(name="database", help="Check the service's database.")


@app.command
def show(*, json: Json = False) -> None:
    """Print the database's mode, its server, and the settings that decide whether what was answered survives a crash."""
    output.show(dict(operating.run(installation_usecases.describe_database)), as_json=json)


@app.command
def recovered(*, json: Json = False) -> None:
    """Say that you have read what the database has forgotten and compared it with the rail: health is well again."""
    losses = operating.run(installation_usecases.close_losses)
    output.show_list("losses", [structs.asdict(loss) for loss in losses], as_json=json)
