"""Keys of a role: one definition, which the command, a night's file and the documentation share."""

import re
from typing import Any

import pytest

from flows.cli.commands.role_options import fields_of, split_spec
from schemas.errors import UsageError
from tasks.planning.request import ModelRequest
from tasks.planning.role_keys import ROLE_KEYS, ROLES, Role, key_table
from tests.documentation import generated_pages
from tests.test_readme import command_tree


def test_every_field_of_a_model_is_a_key_and_every_key_a_field() -> None:
    assert {key.name for key in ROLE_KEYS} == set(ModelRequest.model_fields) - {"spec"}
    assert len({key.name for key in ROLE_KEYS}) == len(ROLE_KEYS)


def test_the_documentation_has_a_row_for_each_key_with_its_flag() -> None:
    rows = {line.split("`")[1]: line for line in key_table().splitlines() if line.startswith("| `")}
    assert list(rows) == [key.name for key in ROLE_KEYS]
    assert all(
        f"`--{key.flag.replace('_', '-')}`" in rows[key.name]
        for key in ROLE_KEYS
        if key.flag and "subject" in key.roles
    )
    assert key_table() in generated_pages()["reference/role-keys.md"]


def test_the_command_has_a_flag_for_each_key_of_each_role_and_its_help_shows_the_subjects() -> None:
    run = command_tree().commands["run"]
    shown = {
        name: not parameter.hidden
        for parameter in run.params
        if hasattr(parameter, "hidden")
        for name in parameter.opts
    }
    for role in ROLES:
        for key in (key for key in ROLE_KEYS if role in key.roles and key.flag is not None):
            assert shown[key.option(role)] == (role == "subject"), key.option(role)
    assert len([name for name, is_shown in shown.items() if is_shown]) < 60
    assert all(key.name in run.epilog for key in ROLE_KEYS)


@pytest.mark.parametrize(
    ("role", "text", "spec", "fields"),
    [
        ("subject", "openai:m@http://a.test/v1", "openai:m@http://a.test/v1", {}),
        (
            "simulator",
            "openai:m@http://a.test/v1?x=1,temperature=0.7,max_tokens=64",
            "openai:m@http://a.test/v1?x=1",
            {"temperature": 0.7, "max_tokens": 64},
        ),
        (
            "judge",
            "openai:m,temperature=default,stop=a,stop=b,c",
            "openai:m",
            {"temperature": "default", "stop": ("a", "b,c")},
        ),
        (
            "subject",
            'openai:m,request.provider={"order": ["a", "b"]},request.top_k=20,headers.X-Team=TEAM',
            "openai:m",
            {
                "request": {"provider": {"order": ["a", "b"]}, "top_k": 20},
                "headers": {"X-Team": "TEAM"},
            },
        ),
        (
            "subject",
            "control:gold,agent=chain_of_thought",
            "control:gold",
            {"agent": "chain_of_thought"},
        ),
        ("subject", "openai:m,omit_reasoning=false", "openai:m", {"omit_reasoning": False}),
        ("embedder", "bge-m3@/weights,revision=r1", "bge-m3@/weights", {"revision": "r1"}),
    ],
)
def test_keys_behind_a_spec_are_fields_of_the_model(
    role: Role, text: str, spec: str, fields: dict[str, Any]
) -> None:
    found, own = split_spec(role, text)
    assert found == spec
    assert ModelRequest(**fields_of(role, {}, own), spec=spec) == ModelRequest(**fields, spec=spec)


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        (
            "subject",
            "openai:m,temprature=1",
            "unknown key 'temprature' of --subject.*Do you mean temperature?",
        ),
        ("embedder", "openai:m,temperature=1", "unknown key 'temperature' of --embedder"),
        ("simulator", "openai:m,agent=chain_of_thought", "unknown key 'agent' of --simulator"),
        ("judge", "openai:m,request=1", r"have the form request\.NAME=VALUE"),
        ("judge", "openai:m,max_tokens.a=1", "have the form max_tokens=VALUE"),
        ("judge", "openai:m,max_tokens=1,max_tokens=2", "max_tokens occurs twice"),
        ("subject", "openai:m,request.effort=low", "'effort=\"low\"'"),
    ],
)
def test_a_faulty_key_is_refused(role: Role, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.compile(message, re.DOTALL)):
        fields_of(role, {}, split_spec(role, text)[1])


def test_a_judges_own_key_wins_over_the_flag_of_all_judges_and_a_subjects_contradicts_it() -> None:
    flags, own = (
        {"temperature": ["0.2"], "request": ["top_k=1"]},
        {"temperature": ["0.7"], "request": ["top_k=2"]},
    )
    assert fields_of("judge", flags, own) == {"temperature": 0.7, "request": {"top_k": 2}}
    with pytest.raises(
        UsageError, match="--temperature and temperature in --subject set the same value"
    ):
        fields_of("subject", flags, own)
