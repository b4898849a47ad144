# pyright: reportMissingImports=false
"""Driver of mini-swe-agent's default agent with its own prompts (`mini.yaml`).

Usage: python mini_swe_agent_driver.py ADDRESS STEPS. Model and environment are Parley's, but it
imports nothing of Parley.
"""

import json
import re
import shlex
import time
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import yaml
from jinja2 import StrictUndefined, Template
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import FormatError, Submitted
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)
from parley_line import ask
from pydantic import BaseModel

MESSAGE_USER = "message_user"
MESSAGE_USER_TOOL = {
    "type": "function",
    "function": {
        "name": MESSAGE_USER,
        "description": "Sends a message to the user, who asked for the work, and gives the reply.",
        "parameters": {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "what to say"}},
            "required": ["message"],
        },
    },
}
COMMAND_S = 60
"""Timeout of a command, as in mini-swe-agent's configuration for SWE-bench."""
SUBMITTED = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
END_OF_OUTPUT = re.compile(r"\[exit code (\d+)\]|\[ended by signal (\d+)\]|\[ended after .* s\]")
SYSTEM = {"system": "Linux", "release": "", "version": "", "machine": ""}
"""Facts for the prompt. Facts of this machine would make the prompt depend on the machine."""


class ModelConfig(BaseModel):
    """Templates in `mini.yaml` that mini-swe-agent expects its model class to fill in."""

    observation_template: str
    format_error_template: str


class ParleyModel:
    """Model that asks Parley. See `minisweagent.Model`."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """Return the model's next message with its actions. Raises FormatError."""
        prompt = [{k: v for k, v in message.items() if k != "extra"} for message in messages]
        answer = ask("v1/chat/completions", messages=prompt, tools=[BASH_TOOL, MESSAGE_USER_TOOL])
        choice = answer["choices"][0]
        extra = {"actions": self._actions(choice), "cost": 0.0, "timestamp": time.time()}
        return {**choice["message"], "extra": extra}

    def _actions(self, choice: dict[str, Any]) -> list[dict[str, Any]]:
        """Return commands and messages. Text without a call is a message to the user."""
        message, reason = choice["message"], choice["finish_reason"]
        calls = [
            SimpleNamespace(id=call["id"], function=SimpleNamespace(**call["function"]))
            for call in message.get("tool_calls") or ()
        ]
        words = message.get("content") or ""
        if not calls and words.strip() and reason != "length":
            return [{"words": words}]
        if not calls:
            return self._commands([], reason)
        actions: list[dict[str, Any]] = []
        for call in calls:
            is_message = call.function.name == MESSAGE_USER
            actions += (
                [self._message(call, reason)] if is_message else self._commands([call], reason)
            )
        return actions

    def _commands(self, calls: list[Any], reason: str) -> list[dict[str, Any]]:
        return parse_toolcall_actions(
            calls,
            format_error_template=self.config.format_error_template,
            template_kwargs={"finish_reason": reason},
        )

    def _message(self, call: Any, reason: str) -> dict[str, Any]:
        try:
            message = json.loads(call.function.arguments)["message"]
            if not isinstance(message, str) or not message.strip():
                raise ValueError("it is no text, or an empty one")
        except (ValueError, KeyError, TypeError) as error:
            template = Template(self.config.format_error_template, undefined=StrictUndefined)
            text = template.render(
                error=f"Bad 'message' argument in message_user tool call: {error}",
                actions=[],
                has_tool_calls=True,
                finish_reason=reason,
            )
            raise FormatError(
                {"role": "user", "content": text, "extra": {"interrupt_type": "FormatError"}}
            ) from None
        return {MESSAGE_USER: message, "tool_call_id": call.id}

    def format_message(self, **message: Any) -> dict[str, Any]:
        """Return the message as it is."""
        return message

    def format_observation_messages(
        self,
        message: dict[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return a message for each action: the user's reply as it is, output by the template."""
        messages: list[dict[str, Any]] = []
        for action, output in zip(message["extra"]["actions"], outputs, strict=True):
            if "words" in action:
                messages.append({"role": "user", "content": output["output"]})
            elif MESSAGE_USER in action:
                reply = {"role": "tool", "content": output["output"]}
                messages.append({**reply, "tool_call_id": action["tool_call_id"]})
            else:
                messages += format_toolcall_observation_messages(
                    actions=[action],
                    outputs=[output],
                    observation_template=self.config.observation_template,
                    template_vars=template_vars,
                )
        return messages

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """Return the configuration."""
        return self.config.model_dump()

    def serialize(self) -> dict[str, Any]:
        """Return an empty object, since Parley stores the dialogue."""
        return {}


class Workspace:
    """Environment whose commands run in the episode's workspace. See `minisweagent.Environment`."""

    config = None

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Execute an action. Raises Submitted if its output declares the work done."""
        if "words" in action:
            return success(ask("message", text=action["words"])["reply"])
        if MESSAGE_USER in action:
            message = {"message": action[MESSAGE_USER]}
            return success(ask("tool", name=MESSAGE_USER, arguments=message)["content"])
        # Each command has a shell of its own, as the prompt says, and one stream for its output.
        command = f"bash -c {shlex.quote(str(action['command']))} 2>&1"
        arguments = {"command": command, "timeout_s": COMMAND_S}
        output = parse_output(ask("tool", name="bash", arguments=arguments)["content"])
        first, _, rest = output["output"].lstrip().partition("\n")
        if first.strip() == SUBMITTED and output["returncode"] == 0:
            extra = {"exit_status": "Submitted", "submission": rest}
            raise Submitted({"role": "exit", "content": rest, "extra": extra})
        return output

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """Return the facts about the system for the prompt."""
        return dict(SYSTEM)

    def serialize(self) -> dict[str, Any]:
        """Return an empty object, since Parley stores the dialogue."""
        return {}


def success(output: str) -> dict[str, Any]:
    """Return the result of a successful action."""
    return {"output": output, "returncode": 0, "exception_info": ""}


def parse_output(content: str) -> dict[str, Any]:
    """Split the result of Parley's shell into output and status, which is its last line."""
    output, _, end = content.rpartition("\n")
    match = END_OF_OUTPUT.fullmatch(end)
    if match is None:
        return {"output": "", "returncode": -1, "exception_info": content}
    if match[1] is not None:
        return {"output": output, "returncode": int(match[1]), "exception_info": ""}
    status = -int(match[2]) if match[2] is not None else -1
    return {"output": output, "returncode": status, "exception_info": end.strip("[]")}


def main() -> None:
    """Work until the agent submits or Parley ends this process."""
    config = yaml.safe_load((package_dir / "config" / "mini.yaml").read_text(encoding="utf-8"))
    model = ModelConfig.model_validate(
        {name: config["model"][name] for name in ModelConfig.model_fields}
    )
    templates = {name: config["agent"][name] for name in ("system_template", "instance_template")}
    agent = DefaultAgent(ParleyModel(model), Workspace(), cost_limit=0.0, **templates)
    agent.run(ask("start", version=version("mini-swe-agent"))["message"])
    ask("finish")


if __name__ == "__main__":
    main()
