"""``pixconnect database``: the server under the service, and how durable it is."""

from cyclopts import App

from pixconnect.cli import operating, output
from pixconnect.cli.output import Json
from pixconnect.usecases import installation as installation_usecases

app = App(name="database", help="The database under the service.")


@app.command
def show(*, json: Json = False) -> None:
    """Print the database's mode, its server, and the settings that decide whether what was answered survives a crash."""
    output.show(dict(operating.run(installation_usecases.describe_database)), as_json=json)
