"""Health checks of features, as a live service runs them."""

from pixconnect.doors.worker.parts import Problem, check_problems
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.context import Context


async def check_accounts(context: Context) -> None:
    """The check ``institutions``."""
    problems = [problem for problem in gather("problems", Problem) if problem.check == "institutions"]
    await check_problems(context, problems)
