"""The runner of Java: one compilation for all cases of an answer, and a verdict for each case."""

import shutil

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.programs import (
    JavaProgram,
)
from sandbox.judging.runners.run import run_answer
from schemas.run import Limits
from schemas.verdict import ProgramVerdict
from tests.sandbox.judging.test_runners import run

JAVA_TEST = """
class Main { public static void main(String[] a) throws Exception { if (A.f(1) != 1) throw new Exception("no"); } }"""


@pytest.mark.skipif(
    shutil.which("javac") is None, reason="no JDK (`apt-get install default-jdk-headless`)"
)
@pytest.mark.parametrize(
    ("body", "outcome", "detail"),
    [
        ("return x;", "passed", ""),
        ("return 2;", "failed", "java.lang.Exception: no"),
        ("System.exit(0); return x;", "failed", "before its tests were through"),
        ("retur x;", "failed", "error:"),
        ("while (true) {}", "timeout", "CPU time"),
    ],
)
def test_java_passes_by_its_own_end_only(
    bubblewrap: BubblewrapSandbox, body: str, outcome: str, detail: str
):
    program = JavaProgram(
        prompt="class A { static int f(int x) {", completion=f"{body} }} }}", test=JAVA_TEST
    )
    found = run(bubblewrap, program, Limits(cpu_s=3, wall_s=60))
    assert found.outcome.value == outcome
    assert detail in found.detail


JAVA_ADD = (
    "import java.util.*;\nclass A { static int calls; int add(int a, int b) { calls++; return a "
    "+ b; } }\n"
)


JAVA_OVERWRITES = """class A { static int calls; int add(int a, int b) {
    var first = java.nio.file.Path.of("ParleyCase0.class");
    for (int i = 1; i < 4; i++) {
        try {
            var other = java.nio.file.Path.of("ParleyCase" + i + ".class");
            java.nio.file.Files.copy(first, other, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
        } catch (java.io.IOException error) { }
    }
    calls++;
    return 1;
} }
"""


def java_case(number: int, body: str = "") -> str:
    asked = body or (
        f"A a = new A(); if (a.add({number}, 1) != {number + 1} || A.calls != 1) throw new "
        'Exception("no");'
    )
    return (
        f"\nclass Main {{ public static void main(String[] arguments) throws Exception {{ "
        f"{asked} }} }}\n"
    )


@pytest.mark.skipif(
    shutil.which("javac") is None, reason="no JDK (`apt-get install default-jdk-headless`)"
)
@pytest.mark.parametrize(
    ("answer", "bodies", "n_runs"),
    [
        (JAVA_ADD, ("", "", "", ""), 1),
        (JAVA_ADD, ("", 'throw new Exception("other");', "", ""), 2),
        (JAVA_ADD, ("", "System.exit(0);", "", ""), 4),
        (JAVA_ADD, ("", "int x = new A();", "", ""), 5),
        (JAVA_ADD.replace("a + b", "x"), ("", "", "", ""), 1),
        (JAVA_ADD.replace("class A", "class Main { } class A"), ("", ""), 3),
        (JAVA_OVERWRITES, ("", "", "", ""), 4),
    ],
)
def test_java_cases_of_one_answer_are_compiled_together(
    bubblewrap: BubblewrapSandbox, answer: str, bodies: tuple[str, ...], n_runs: int
) -> None:
    programs = [
        JavaProgram(prompt="", completion=answer, test=java_case(n, body))
        for n, body in enumerate(bodies)
    ]
    limits = Limits(cpu_s=3, wall_s=60)
    together, n_found = run_answer(bubblewrap, programs, limits)
    alone = [run(bubblewrap, program, limits) for program in programs]
    assert [one.outcome for one in together if isinstance(one, ProgramVerdict)] == [
        one.outcome for one in alone
    ]
    assert n_found == n_runs
