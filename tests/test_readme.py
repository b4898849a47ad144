"""The pages say what is there: each command, option, target and link in them exists, and a page
shows each command and target.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.own_files import ROOT, own_files, relative

README = ROOT / "README.md"
TOPICS = ROOT / "flows" / "text" / "topics"
PAGES = tuple(
    path for path in own_files() if path.suffix == ".md" and "/prompts/" not in relative(path)
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TARGETS = re.compile(r"^\.PHONY: (.+)$", re.MULTILINE)


@cache
def command_tree() -> Any:
    """The command line as typer builds it."""
    from typer.main import get_command

    from flows.cli.app import app

    return get_command(app)


@cache
def make_targets() -> set[str]:
    """Return the targets that a person types, as make itself knows them."""
    command = ("make", "--print-data-base", "--dry-run", "help")
    known = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(" ".join(TARGETS.findall(known)).split())


def typed_lines(page: str) -> Iterator[str]:
    """Lines of shell blocks, continued ones joined, and inline code."""
    for language, block in FENCE.findall(page):
        if language in {"bash", "sh", "console"}:
            yield from (line.removeprefix("$ ") for line in block.replace("\\\n", " ").splitlines())
    yield from INLINE.findall(FENCE.sub("", page))


def typed_words(page: str, program: str) -> Iterator[list[str]]:
    """Words after `program` in each typed command, up to a pipe, a redirection or a comment."""
    for line in typed_lines(page):
        words = shlex.split(line.replace("'", " ") if line.count("'") % 2 else line, comments=True)
        if words and Path(words[0]).name == program:
            end = next(
                (i for i, word in enumerate(words) if word in {"|", "&&", ">", ";", "·"}),
                len(words),
            )
            yield [word.strip("[]") for word in words[1:end]]


def faults(words: list[str], command: Any) -> list[str]:
    """Words of one typed command that the command line does not know."""
    words = list(words)
    while words and getattr(command, "commands", None):
        if words[0].startswith("-"):
            break
        name = words.pop(0)
        if name not in command.commands:
            return [f"no command {name!r}"]
        command = command.commands[name]
    known = {
        option
        for parameter in command.params
        for option in parameter.opts + parameter.secondary_opts
    } | {"--help"}
    given = [word.partition("=")[0] for word in words if re.match("--?[a-z]", word)]
    return [f"{command.name}: no option {option!r}" for option in given if option not in known]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_command_on_a_page_exists(page: Path) -> None:
    typed = list(typed_words(page.read_text(encoding="utf-8"), "parley"))
    assert [
        (" ".join(words), fault) for words in typed for fault in faults(words, command_tree())
    ] == []


def test_a_command_or_option_that_does_not_exist_is_found() -> None:
    page = (
        "```bash\nparley rnu codeif\nparley run a.b --modle x | cat --nothing\n```\nSee `parley "
        "server strat`."
    )
    wrong = [
        fault for words in typed_words(page, "parley") for fault in faults(words, command_tree())
    ]
    assert wrong == ["no command 'rnu'", "run: no option '--modle'", "no command 'strat'"]


def test_a_how_to_page_shows_every_command() -> None:
    pages = (page.read_text(encoding="utf-8") for page in TOPICS.glob("*.md"))
    typed = {words[0] for page in pages for words in typed_words(page, "parley") if words}
    shown = {name for name, command in command_tree().commands.items() if not command.hidden}
    assert shown - typed - {"help"} == set()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_make_target_on_a_page_exists(page: Path) -> None:
    typed = [words[0] for words in typed_words(page.read_text(encoding="utf-8"), "make") if words]
    assert [target for target in typed if target not in make_targets()] == []


def test_every_make_target_stands_in_the_page_for_developers() -> None:
    typed = {
        words[0]
        for words in typed_words((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "make")
        if words
    }
    assert make_targets() - typed - {"help"} == set()


@pytest.mark.slow
def test_every_program_of_developers_can_be_imported() -> None:
    """Benchmarks run by hand: without this test, a moved name breaks them unnoticed."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    benches = (path.stem for path in (ROOT / "tests" / "bench").glob("*.py"))
    named = set(re.findall(r"python -m (tests\.[\w.]+\w)", pages))
    assert "tests.bench.gpus" in named
    for module in sorted(named | {f"tests.bench.{name}" for name in benches}):
        import_module(module)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == []


def rooms(package: str) -> list[str]:
    """Folders with code, pages or help topics below a package, without the benchmarks' own."""
    kept = (
        path.parent.relative_to(ROOT)
        for path in own_files()
        if path.suffix in {".py", ".html", ".css"} or "topics" in path.parts
    )
    found = {
        folder.relative_to(package).as_posix()
        for folder in kept
        if folder.parts[0] == package and len(folder.parts) > 1
    }
    return sorted(name for name in found if not re.match("benchmarks/.", name))


@pytest.mark.parametrize("package", ["flows", "sandbox", "schemas", "tasks", "warehouse"])
def test_every_room_stands_in_its_packages_readme(package: str) -> None:
    page = (ROOT / package / "README.md").read_text(encoding="utf-8")
    assert rooms(package)
    assert [name for name in rooms(package) if f"`{name}/`" not in page] == []


def test_the_architecture_has_a_picture_of_data_whose_tables_exist() -> None:
    from schemas.lake.tables import TABLES

    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    pictures = [block for language, block in FENCE.findall(page) if language == "mermaid"]
    of_data, _of_processes = pictures
    drawn = {name for box in re.findall(r"\w\[([\w, ]+)\]", of_data) for name in box.split(", ")}
    assert drawn
    assert drawn - set(TABLES) == {"SQL", "leaderboard", "notebooks"}


def test_the_tutorial_shows_the_demos_result_and_the_readme_a_picture_of_it() -> None:
    blocks = FENCE.findall((TOPICS / "tutorial.md").read_text(encoding="utf-8"))
    [result] = [
        block for _, block in blocks if block.startswith("Results · benchmark codeif.static")
    ]
    assert "embedded:smollm2" in result
    [picture] = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    content = (ROOT / picture).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) <= 200_000


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= 1000


def test_entrypoints_of_the_deployments_are_flows_that_take_these_parameters() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    assert {deployment["name"] for deployment in deployments} == {
        "nightly",
        "on-demand",
        "backfill",
    }
    for deployment in deployments:
        module, _, name = deployment["entrypoint"].rpartition(".")
        flow = getattr(import_module(module), name)
        assert set(deployment["parameters"]) <= set(flow.parameters.properties)
