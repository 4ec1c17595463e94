"""``pixconnect operator``: what an operator does about what holders own; without that word a verb is one holder's."""

from cyclopts import App

app = App(name="operator", help="What operators do about what holders own.")
app.command("pixconnect.cli.endpoint:app", name="endpoint", help="The webhook endpoints of holders.")
