"""Build `codeif-repository-tasks` (section 3.3.2): verified instructions for real projects' tasks.

Tasks that need code of their project also get instructions of the two context strategies, which
demand the use of that code (Table 1).
"""

import ast
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.dialog import MISSING, Dialog
from schemas.errors import ConfigError, SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
from schemas.run import Sampling
from tasks.benchmarks.advanced import (
    Constructed,
    Construction,
    ConstructionRequest,
    Role,
    json_file,
    jsonl_file,
)
from tasks.benchmarks.codeif.construction.base_task import (
    DESCRIPTIONS,
    PROMPTS,
    BaseTask,
    Draft,
    Rejection,
    Verification,
    report,
)
from tasks.benchmarks.codeif.construction.building import (
    REJECTED,
    rejected_rows,
    review,
    verified_pairs,
)
from tasks.benchmarks.codeif.settings import CONTEXT_STRATEGIES, REPOSITORY_STRATEGIES, STRATEGIES
from tasks.benchmarks.codeif.stage import (
    CONSTRUCTION_REPOSITORIES,
    LIMITS,
    RAW_ROW,
    RESOURCE,
    place_of,
    project_of,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.setting import Options
from tasks.language.prompt import fill, load_prompt

FILES: Mapping[str, str] = {"L1": "L_1_part_2.jsonl", "L2": "L_2_part_1.jsonl", "L3": "L_3.jsonl"}
"""Level of tasks -> name of the file with the tasks of this level."""
SOURCE_MISSING = "source_missing"
"""Reason of rejection: the project is missing, or is another release than the task's."""
OF_CONTEXTS: Mapping[str, str] = dict(
    zip(
        CONTEXT_STRATEGIES,
        (
            (
                "functions, classes or attributes of the project that the code uses, by name. "
                "The test decides whether it uses them."
            ),
            "how the code uses functions, classes or attributes of the project: with which "
            "arguments, how often, and for what."
            " The test puts stand-ins in their place and looks at the calls.",
        ),
        strict=True,
    )
)
"""Context strategy -> subject of its requirements, part of the prompt."""
_QUESTION = {
    "write_repository_pair": load_prompt("tasks.benchmarks.codeif", "write_repository_pair")
}
_LONGEST_TESTS = 6000
_TEST_NAME = re.compile(r"(?m)^(\s*(?:async\s+)?def\s+)(test\w*)(?=\s*\()")


@dataclass(frozen=True)
class RepositoryTask(BaseTask):
    """Base task about a function or method of a project."""

    dialog: Dialog
    tests_text: str
    """Start of the test file that contains the task's first base test."""

    @property
    def strategies(self) -> Sequence[str]:
        return STRATEGIES if self.problem.level == "L1" else REPOSITORY_STRATEGIES

    @property
    def _owner(self) -> str:
        """Location of the task's first base test: `FILE`, or `FILE::CLASS` for one of a class."""
        return (
            self.problem.instruction(BASE_INSTRUCTION)
            .suite.tests[0]
            .partition("[")[0]
            .rpartition("::")[0]
        )

    def question(self, strategy: str) -> str:
        test_file, _, test_class = self._owner.partition("::")
        method = f"a method of the class {test_class}, with `self`, written without indentation."
        return fill(
            _QUESTION["write_repository_pair"],
            task=self.problem.prompt,
            file=dict(self.dialog.labels)["file"],
            reference=textwrap.dedent(self.problem.reference_code).strip(),
            test_file=test_file,
            tests=self.tests_text,
            form=method if test_class else "a function.",
            strategy=strategy,
            description=OF_CONTEXTS.get(strategy) or DESCRIPTIONS[strategy],
        )

    def unreadable(self, strategy: str, draft: Draft) -> str | None:
        if len(_TEST_NAME.findall("\n\n".join(draft.unit_test))) != 1:
            return "unit_test must hold one function whose name begins with test"
        return None

    def ignorant_code(self, strategy: str) -> str:
        # The reference uses its context, so an empty definition replaces it for context strategies.
        code = super().ignorant_code(strategy)
        return _without_body(code) if strategy in CONTEXT_STRATEGIES else code

    async def fault(
        self, code: str, drafts: Mapping[str, Draft], *, with_base: bool = True
    ) -> str | None:
        base = self.problem.instruction(BASE_INSTRUCTION)
        added = tuple(
            Instruction(instruction_id=name, text=draft.requirement, suite=self.suite(name, draft))
            for name, draft in drafts.items()
        )
        problem = self.problem.model_copy(update={"instructions": (base, *added)})
        names = (*((BASE_INSTRUCTION,) if with_base else ()), *drafts)
        place, decides = place_of(problem, self.dialog, names)
        nodes = tuple(dict.fromkeys(node for node_ids in decides.values() for node in node_ids))
        return report(await self.request.programs.run("pytest", code, nodes, place))

    def suite(self, strategy: str, draft: Draft) -> TestSuite:
        """Return an instruction's test (node id, text) under a name unique to its strategy."""
        suffix = strategy.lower().replace(" ", "_").replace("-", "_")
        node = f"test_{suffix}_of_{dict(self.dialog.labels)['definition']}".replace(".", "_")
        text = _TEST_NAME.sub(lambda match: f"{match[1]}{node}", "\n\n".join(draft.unit_test))
        return TestSuite(tests=(f"{self._owner}::{node}", text), kind="pytest")


def _without_body(code: str) -> str:
    """Return the code with empty function bodies; invalid Python stays unchanged."""
    try:
        tree = ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError):
        return code
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [ast.Pass()]
    return ast.unparse(tree)


def estimate(*, staged: Staged, options: Options) -> Mapping[str, int]:
    """Return the number of model calls: one for each task and strategy.

    Repairs (at most two for a pair) and combined solutions are not included.

    Raises:
        ConfigError: the command names no folder of projects.
    """
    if any(dialog.tree is None for dialog in staged.dialogs):
        raise ConfigError(
            "tests run in the tasks' projects: name the projects' folder by"
            f" --resource {RESOURCE}=DIR. `parley build codeif-repos --out DIR` creates it"
        )
    levels = [problem.level for problem in staged.problems]
    return {
        "model": sum(
            len(STRATEGIES if level == "L1" else REPOSITORY_STRATEGIES) for level in levels
        )
    }


async def construct(request: ConstructionRequest) -> Constructed:
    """Return the build's files: tasks by level, rejected pairs, and a sheet for annotators."""
    from asyncio import gather  # imported here, because commands that list benchmarks skip it

    dialogs = {dialog.problem_id: dialog for dialog in request.staged.dialogs}
    problems = request.staged.problems
    tasks = [_task(request, problem, dialogs[problem.problem_id]) for problem in problems]
    verified = await gather(*(_verified(task) for task in tasks))
    pairs_by_task = list(zip(problems, verified, strict=True))
    rows: dict[str, list[object]] = {}
    for task, verification in zip(tasks, verified, strict=True):
        if verification.order:
            rows.setdefault(FILES[task.problem.level], []).append(_row(task, verification))
    files = {name: jsonl_file(of_level) for name, of_level in sorted(rows.items())}
    rejected = json_file(rejected_rows(pairs_by_task))
    return Constructed({**files, REJECTED: rejected}, review(pairs_by_task))


def _task(request: ConstructionRequest, problem: Problem, dialog: Dialog) -> RepositoryTask:
    """Return the base task of a dialog, with the start of its test file.

    Raises:
        SourceUnreadable: the test file existed when the build was planned, and cannot be read now.
    """
    task = RepositoryTask(request, problem, dialog, "")
    if dialog.tree in (None, MISSING):
        return task
    path = (
        Path(request.resources[RESOURCE]) / str(project_of(dialog)) / task._owner.partition("::")[0]
    )
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise SourceUnreadable(
            f"{path}: the tests of {problem.problem_id} cannot be read ({error.strerror})"
        ) from error
    return RepositoryTask(request, problem, dialog, text[:_LONGEST_TESTS])


async def _verified(task: RepositoryTask) -> Verification:
    if task.dialog.tree in (None, MISSING):
        detail = f"{project_of(task.dialog)} is not there, or lacks the definition"
        return Verification(
            (),
            (),
            tuple(Rejection(strategy, SOURCE_MISSING, detail, 0) for strategy in task.strategies),
        )
    return await verified_pairs(task)


def _row(task: RepositoryTask, verification: Verification) -> Mapping[str, object]:
    """Return the task in the native format; a conflicting pair is a requirement without a turn."""
    requirements: dict[str, object] = {}
    for pair in verification.pairs:
        node, text = task.suite(pair.strategy, pair.draft).tests
        requirements[pair.strategy] = {
            "requirement": pair.draft.requirement,
            "unit_test": [text],
            "test": node,
        }
    return {
        **json.loads(dict(task.dialog.labels)[RAW_ROW]),
        "prompt": task.problem.prompt,
        "code": task.problem.reference_code,
        "requirements": requirements,
        "multi-turn": list(verification.order),
    }


CONSTRUCTION = Construction(
    help="repository tasks with verified instructions from base tasks and their projects, including"
    " instructions to use the project's code (context strategies)",
    roles={"model": Role("writes instructions, tests and solutions", Sampling(max_tokens=3000))},
    construct=construct,
    estimate=estimate,
    prompts={**_QUESTION, **{name: PROMPTS[name] for name in ("repair_pair", "combine")}},
    runs_programs=True,
    limits=LIMITS,
    dataset_version=CONSTRUCTION_REPOSITORIES,
)
