"""Agents of other projects. To add one, write a driver and a value here that the registry names."""

from tasks.dialogue.agents.repository.outside.adapter import DRIVERS, Adapter
from tasks.dialogue.agents.repository.outside.agent import outside_agent
from tasks.dialogue.agents.repository.tools import Bash, EditFile

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
