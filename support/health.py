"""Health checks of features, as a live service runs them."""

from __future__ import annotations

from pixconnect.feature import gather
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.frame.problem import Problem, check_problems


async def check_accounts(context: Context) -> None:
    """The check ``institutions``."""
    problems = [problem for problem in gather("problems", Problem) if problem.check == "institutions"]
    await check_problems(context, problems)
