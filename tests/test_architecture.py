"""The shape that keeps every line findable: folders, layers, who may import Prefect, who may know a
benchmark's name.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import LONGEST_FIRST
from tests.own_files import ROOT, own_files, relative

PACKAGES = ("schemas", "sandbox", "tasks", "warehouse", "flows")
LAYERS = {
    "schemas": {"schemas"},
    "sandbox": {"schemas", "sandbox"},
    "tasks/*/": {"schemas", "sandbox", "warehouse", "tasks/*/"},
    "warehouse": {"schemas", "warehouse"},
    "tasks/*.py": {"schemas", "sandbox", "tasks/*/", "warehouse", "tasks/*.py"},
    "flows": {"schemas", "sandbox", "tasks/*/", "warehouse", "tasks/*.py", "flows"},
}
"""layer -> the layers it may import."""
TOP_LEVEL = {
    *(*PACKAGES, "tests", "docs"),
    *(
        ".ci",
        ".github",
        ".gitignore",
        ".gitattributes",
        ".pre-commit-config.yaml",
        ".python-version",
    ),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *("Makefile", "mkdocs.yml", "pyproject.toml", "prefect.yaml", "nightly.yaml"),
    *(
        "requirements.lock",
        "requirements-embeddings.lock",
        "requirements-inspect.lock",
        "requirements-docs.lock",
    ),
    *(
        "requirements-bigcodebench.lock",
        "requirements-openhands.lock",
        "requirements-mini-swe-agent.lock",
        "requirements-telemetry.lock",
    ),
}
MAX_LINES = 400
BENCHMARKS = tuple(path.parent.name for path in sorted(ROOT.glob("tasks/benchmarks/*/data.yaml")))
REGISTRY = "tasks/benchmarks/registry.py"
DOTTED = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")
PYTHON = tuple(path for path in own_files() if path.suffix == ".py")
CODE = tuple(path for path in PYTHON if relative(path).split("/")[0] in PACKAGES)


def test_the_modules_that_begin_first_exist() -> None:
    assert [name for name in LONGEST_FIRST if not (ROOT / "tests" / name).is_file()] == []


def layer_of_file(name: str) -> str:
    """Layer of a file, given by its path from the root."""
    parts = name.split("/")
    if parts[0] != "tasks":
        return parts[0]
    return "tasks/*/" if len(parts) > 2 or parts[1] == "__init__.py" else "tasks/*.py"


def layer_of_module(module: str) -> str | None:
    """Layer of a dotted module name; None for what is not ours."""
    parts = module.split(".")
    if parts[0] not in (*PACKAGES, "tests"):
        return None
    if parts[0] == "tasks" and len(parts) > 1 and (ROOT / "tasks" / f"{parts[1]}.py").is_file():
        return "tasks/*.py"
    return "tasks/*/" if parts[0] == "tasks" else parts[0]


def _is_own_module(text: str) -> bool:
    path = ROOT / text.replace(".", "/")
    return bool(DOTTED.fullmatch(text)) and (path.is_dir() or path.with_suffix(".py").is_file())


def imported_modules(name: str, tree: ast.AST) -> Iterator[str]:
    """Dotted names that a file imports anywhere; a string that names a module of ours
    (`import_module("a.b")`) counts.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(name.split("/")[: -node.level]) if node.level else ""
            base = ".".join(part for part in (package, node.module) if part)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _is_own_module(node.value)
        ):
            yield node.value


def upward_imports(name: str, source: str) -> list[str]:
    """Imports of a file that its layer may not have."""
    layer = layer_of_file(name)
    layers = {
        module: layer_of_module(module) for module in imported_modules(name, ast.parse(source))
    }
    return [
        f"{name} ({layer}) imports {module}"
        for module, of in layers.items()
        if of and of not in LAYERS[layer]
    ]


def imports_prefect(name: str, source: str) -> bool:
    """Whether a file imports Prefect or one of its integrations."""
    modules = imported_modules(name, ast.parse(source))
    return any(module.split(".")[0].startswith("prefect") for module in modules)


def _example_nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """Docstrings: there a benchmark, or its paper, may stand as an example or source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def benchmark_mentions(name: str, source: str, benchmarks: Iterable[str]) -> list[str]:
    """Identifiers and strings of Python code that hold a benchmark's name."""
    named = re.compile(rf"(?<![a-z])({'|'.join(benchmarks)})(?![a-z])", re.IGNORECASE)
    tree = ast.parse(source)
    examples = {id(node) for node in _example_nodes(tree)}
    found: list[str] = []
    for node in ast.walk(tree):
        texts = [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
        if id(node) not in examples and any(named.search(text) for text in texts):
            found.append(f"{name}:{getattr(node, 'lineno', '?')}: {texts[0]!r}")
    return found


def none_of(found: list[str]) -> None:
    """Fail with every line of what was found."""
    assert not found, "\n" + "\n".join(found)


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    wrong = [
        line
        for path in CODE
        for line in upward_imports(relative(path), path.read_text(encoding="utf-8"))
    ]
    none_of(wrong)


def test_only_who_plays_benchmarks_imports_them() -> None:
    below = re.compile(r"tasks/(dialogue|language|metrics|judging|storage)/")
    files = {
        relative(path): path.read_text(encoding="utf-8")
        for path in CODE
        if below.match(relative(path))
    }
    users = [
        name
        for name, text in files.items()
        for module in imported_modules(name, ast.parse(text))
        if "benchmarks" in module
    ]
    none_of(users)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("schemas/dialog.py", "import sandbox.interface"),
        ("schemas/dialog.py", "def f():\n    from tests.own_files import ROOT"),
        ("sandbox/registry.py", "NAMES = {'x': 'tasks.dialogue.engine'}"),
        ("tasks/dialogue/engine.py", "from flows import cli"),
        ("tasks/dialogue/engine.py", "import tasks.score"),
        ("tasks/dialogue/engine.py", "from ...flows import cli"),
        ("warehouse/publication/load.py", "from tasks.storage import parquet_store"),
        ("tasks/score.py", "import flows.nightly"),
    ],
)
def test_an_import_against_the_direction_is_found(name: str, source: str) -> None:
    assert len(upward_imports(name, source)) == 1


class _AtRunTime(ast.NodeTransformer):
    """Leaves out imports that only a type checker sees, and texts that name modules."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        return None


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Modules -> the modules that they import, at their top or in a function.

    Args:
        sources: path -> Python code.
    """

    def dotted(name: str) -> str:
        return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    modules = {dotted(name) for name in sources}
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        imported = imported_modules(name, _AtRunTime().visit(ast.parse(source)))
        # The last name of `from MODULE import NAME` may be a module, or something in one.
        known = {module if module in modules else module.rpartition(".")[0] for module in imported}
        graph[dotted(name)] = known & modules - {dotted(name)}
    return graph


@pytest.mark.slow
def test_no_module_imports_itself_through_others() -> None:
    graph = import_graph({relative(path): path.read_text(encoding="utf-8") for path in CODE})
    TopologicalSorter(graph).prepare()  # CycleError names the modules of a cycle


def test_a_cycle_through_the_import_of_a_function_is_found() -> None:
    sources = {"flows/a.py": "from flows.b import f", "flows/b.py": "def f(): import flows.a"}
    with pytest.raises(CycleError):
        TopologicalSorter(import_graph(sources)).prepare()
    sources["flows/b.py"] = "if TYPE_CHECKING:\n    from flows import a"
    TopologicalSorter(import_graph(sources)).prepare()


@pytest.mark.slow
def test_the_orchestrator_is_imported_only_where_the_design_says() -> None:
    users = [
        relative(path)
        for path in CODE
        if imports_prefect(relative(path), path.read_text(encoding="utf-8"))
    ]
    none_of(
        [
            name
            for name in users
            if not re.fullmatch(r"(flows|tasks|flows/orchestration)/\w+\.py", name)
        ]
    )


def test_an_import_of_the_orchestrator_is_found() -> None:
    assert imports_prefect(
        "schemas/run.py", "def f():\n    from prefect.cache_policies import INPUTS"
    )
    assert imports_prefect("schemas/run.py", "import prefect_dask")
    assert not imports_prefect("schemas/run.py", "from schemas.run import prefect")


@pytest.mark.slow
def test_only_the_registry_names_a_benchmark_outside_its_folder() -> None:
    mentions: list[str] = []
    for path in CODE:
        name = relative(path)
        if not re.match(rf"tasks/benchmarks/({'|'.join(BENCHMARKS)})/", name):
            mentions += benchmark_mentions(name, path.read_text(encoding="utf-8"), BENCHMARKS)
    registered = [line for line in mentions if line.startswith(REGISTRY)]
    none_of([line for line in mentions if line not in registered])
    assert len({line.split(":")[1] for line in registered}) == len(BENCHMARKS)


def test_shared_sql_names_no_benchmark() -> None:
    named = re.compile("|".join(BENCHMARKS), re.IGNORECASE)
    statements = {
        path: re.sub("--.*", "", path.read_text(encoding="utf-8"))
        for path in own_files()
        if path.suffix == ".sql"
    }
    none_of(
        [
            relative(p)
            for p, sql in statements.items()
            if relative(p).startswith("warehouse/") and named.search(sql)
        ]
    )


def test_a_mention_of_a_benchmark_is_found_in_code_but_not_in_docstrings_and_comments() -> None:
    code = (
        "def import_codeif(x):\n    option(help='for example codeif')\n    return x == "
        "'codeif.static'\n"
    )
    examples = '"""As codeif does."""\noption()  # codeif\n'
    assert len(benchmark_mentions("flows/cli/app.py", code, ["codeif"])) == 3
    assert benchmark_mentions("flows/cli/app.py", examples, ["codeif"]) == []


def test_every_folder_of_the_card_and_every_benchmark_has_a_readme() -> None:
    folders = [*PACKAGES, "tests", *(f"tasks/benchmarks/{name}" for name in BENCHMARKS)]
    short = [name for name in folders if not (ROOT / name / "README.md").is_file()]
    none_of(short)
    none_of(
        [
            name
            for name in folders
            if len((ROOT / name / "README.md").read_text(encoding="utf-8").split()) < 30
        ]
    )


def test_no_python_file_is_long() -> None:
    lengths = {relative(path): path.read_text(encoding="utf-8").count("\n") for path in PYTHON}
    none_of([f"{name}: {n} lines" for name, n in lengths.items() if n > MAX_LINES])


def test_the_top_level_is_fixed() -> None:
    assert {relative(path).split("/")[0] for path in own_files()} - TOP_LEVEL == set()


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in PYTHON if relative(path).startswith("tests/")}
    none_of(
        sorted(relative(folder) for folder in folders if not (folder / "__init__.py").is_file())
    )


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    for path in own_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # no text
            continue
        found += [
            f"{relative(path)}:{number}"
            for number, line in enumerate(lines, 1)
            if pattern.search(line)
        ]
    return found


def test_no_file_names_a_registry_host() -> None:
    hosts = (
        "pypi" + r"\.org",
        "python" + "hosted",
        r"registry\.npm" + "js",
        "deb" + r"\.debian\.org",
    )
    none_of(_lines_with(re.compile("|".join(hosts))))


def test_no_file_names_a_path_of_this_machine() -> None:
    places = (f"{ROOT}/", f"{ROOT.parent}/shared", str(Path.home() / ".cache"), "/bash" + "_jobs")
    none_of(_lines_with(re.compile("|".join(re.escape(place) for place in places))))
