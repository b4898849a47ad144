"""Agents of other projects. To add one, write a driver and a value here that the registry names.

An agent's package pins other versions than Parley, so it has its own Python. Its process reaches
Parley at one loopback address, for the model's answers, for tools and for the user. Therefore
journal, budget, costs and sandbox apply as usual.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from schemas.dialog import HistoryPolicy
from tasks.dialogue.agents.contract import Agent, AgentOption, AgentRequest, MakeSubject
from tasks.dialogue.agents.repository.agents import STEPS, open_repository
from tasks.dialogue.agents.repository.loop import MOST_STEPS, USUAL_STEPS
from tasks.dialogue.agents.repository.outside.adapter import DRIVERS, Adapter, require_release
from tasks.dialogue.agents.repository.outside.session import open_session
from tasks.dialogue.agents.repository.outside.subject import OutsideSubject
from tasks.dialogue.agents.repository.tools import Bash, EditFile
from tasks.language.prompt import PromptTexts, fill

_STEP_LIMITS = tuple(str(n) for n in range(1, MOST_STEPS + 1))


def outside_agent(adapter: Adapter) -> Agent:
    """Return the agent that an adapter describes."""
    prompts = PromptTexts("tasks.dialogue.agents.repository", (adapter.prompt,))

    @asynccontextmanager
    async def begin(request: AgentRequest) -> AsyncIterator[MakeSubject]:
        limit = int(request.options[STEPS])
        work = fill(prompts[adapter.prompt], steps=str(limit))
        async with open_repository(request) as workspace, open_session(adapter, limit) as session:

            def make_subject(history: HistoryPolicy) -> OutsideSubject:
                return OutsideSubject(
                    model=request.model,
                    sampling=request.sampling,
                    workspace=workspace,
                    session=session,
                    adapter=adapter,
                    work=work,
                    release=request.options[adapter.release_option],
                    most_steps=limit,
                )

            yield make_subject

    return Agent(
        name=adapter.name,
        version=adapter.version,
        help=adapter.help,
        begin=begin,
        options=(
            AgentOption(
                STEPS, str(MOST_STEPS), "maximum answers of the model per dialogue", _STEP_LIMITS
            ),
            AgentOption(
                adapter.release_option, adapter.release, f"version of {adapter.distribution}"
            ),
        ),
        prompts=prompts,
        calls_per_turn=MOST_STEPS,
        usual_calls=USUAL_STEPS,
        check=partial(require_release, adapter),
    )


OPENHANDS = outside_agent(
    Adapter(
        name="openhands",
        version="2",
        help="the agent of the OpenHands SDK in a repository; `make openhands` installs it",
        distribution="openhands-sdk",
        release="1.58.0",
        release_option="sdk",
        python="3.12",
        driver=DRIVERS / "openhands_driver.py",
        prompt="work",
        tools=lambda workspace: (Bash(workspace), EditFile(workspace)),
        environ={
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
            "LOG_LEVEL": "ERROR",
        },
    )
)
MINI_SWE_AGENT = outside_agent(
    Adapter(
        name="mini-swe-agent",
        version="1",
        help="mini-swe-agent in a repository, with bash alone; `make mini-swe-agent` installs it",
        distribution="mini-swe-agent",
        release="2.4.6",
        release_option="release",
        python="3.11",
        driver=DRIVERS / "mini_swe_agent_driver.py",
        prompt="bash_work",
        tools=lambda workspace: (Bash(workspace),),
        environ={"MSWEA_SILENT_STARTUP": "1"},
    )
)
