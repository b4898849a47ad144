"""`--agent openhands`: the agent of the OpenHands software-agent SDK, on the episode's workspace and the run's model.

The SDK is a process of its own Python (3.12 or newer), which `PARLEY_OPENHANDS` names: what it pins is not what Parley pins. It
reaches Parley at one loopback address, for the model's answers and for its two tools; so journal, budget, costs and sandbox hold.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schemas.dialog import HistoryPolicy
from tasks.dialogue.agents.contract import Agent, AgentOption, AgentRequest, MakeSeat
from tasks.dialogue.agents.repository.agents import STEPS, open_repository
from tasks.dialogue.agents.repository.loop import MOST_STEPS
from tasks.dialogue.agents.repository.openhands.seat import OpenHandsSeat
from tasks.dialogue.agents.repository.openhands.session import open_session
from tasks.language.prompt import PromptTexts, fill

SDK = "sdk"
_PROMPTS = PromptTexts("tasks.dialogue.agents.repository", ("work",))


@asynccontextmanager
async def _begin(request: AgentRequest) -> AsyncIterator[MakeSeat]:
    most_steps = int(request.options[STEPS])
    async with open_repository(request) as workspace, open_session(most_steps) as session:

        def seat(history: HistoryPolicy) -> OpenHandsSeat:
            return OpenHandsSeat(
                model=request.model,
                sampling=request.sampling,
                workspace=workspace,
                session=session,
                told=fill(_PROMPTS["work"], steps=request.options[STEPS]),
                version=request.options[SDK],
                most_steps=most_steps,
            )

        yield seat


AGENT = Agent(
    name="openhands",
    version="1",
    help="the OpenHands SDK's agent in a repository; needs openhands-sdk on a Python of its own, named by PARLEY_OPENHANDS",
    begin=_begin,
    options=(
        AgentOption(
            STEPS, str(MOST_STEPS), "most answers of the model in a dialogue", tuple(str(n) for n in range(1, MOST_STEPS + 1))
        ),
        AgentOption(SDK, "1.58.0", "version of openhands-sdk"),
    ),
    prompts=_PROMPTS,
    calls_per_turn=MOST_STEPS,
)
