"""No attack passes, none is infra, none leaves anything, and the run after it is what it would have
been without it.
"""

import os
import random
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.canary.release import Family, Program, planted_baits
from sandbox.interface import Sandbox
from sandbox.judging.joint_run import run_together
from sandbox.judging.runners.python_tests import statement_tests
from sandbox.judging.runners.run import run_function_tests
from sandbox.registry import SANDBOXES
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict
from tests.sandbox.attacks.conftest import AT_ONCE
from tests.sandbox.attacks.corpus import SEED, attacks, corpus, fitting, legitimate_programs
from tests.sandbox.attacks.host import Host

pytestmark = pytest.mark.slow

PROBE = """\
import glob, os
left = [p for folder in ('.', '/tmp', '/dev/shm') for p in glob.glob(f'{folder}/parley-attack-*')]
others = [p for p in os.listdir('/proc') if p.isdigit()]
def f(): return 1 if not left and len(others) < 8 and sorted([2, 1]) == [1, 2] else (left, others)
"""
"""An honest program that also looks for what the run before might have left to it."""


def wrong_verdicts(
    sandbox: Sandbox, programs: Iterable[Program], host: Host, *, with_probes: bool = False
) -> dict[str, str]:
    """Title -> what came out, of every program that did not end as it must."""

    def verdict(program: Program) -> ProgramVerdict | SandboxUnavailable:
        limits = host.limits
        if program.must_pass:
            limits = limits.model_copy(update={"wall_s": 30.0, "cpu_s": 5.0})
        elif program.family is Family.ESCAPE:
            limits = limits.model_copy(
                update={"wall_s": 20.0}
            )  # it ends by itself; a container starts slowly
        try:
            return run_function_tests(
                sandbox, program.with_baits(host.baits).code, program.tests, limits
            )
        except SandboxUnavailable as fault:
            return fault

    def wrong(program: Program) -> str:
        said = verdict(program)
        if isinstance(said, SandboxUnavailable):
            return f"infra: {said}"
        wanted = (Outcome.PASSED,) if program.must_pass else (Outcome.FAILED, Outcome.TIMEOUT)
        if said.outcome not in wanted:
            return f"{said.outcome.value}: {said.detail[-300:]}"
        if not program.must_pass and not said.detail:
            return "says no reason"
        if program.family is Family.ESCAPE and "held" not in said.detail:
            return f"the attack itself does not work: {said.detail[-300:]}"
        after = wrong(honest) if with_probes and program is not honest else ""
        return f"the run after it: {after}" if after else ""

    honest = Program(Family.LEGITIMATE, "the run after", PROBE, ("assert f() == 1, f()",))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = threads.map(lambda program: (program.title, wrong(program)), programs)
        return {title: what for title, what in found if what}


@pytest.mark.parametrize("family", [Family.ESCAPE, Family.EXHAUST])
def test_no_attack_on_the_host_passes_or_leaves_anything(
    sandbox: Sandbox, backend: str, host: Host, family: Family
) -> None:
    programs = [program for program in attacks() if program.family is family]
    assert wrong_verdicts(sandbox, fitting(programs, backend), host, with_probes=True) == {}
    assert host.remains() == []


def test_no_forged_pass_is_believed(sandbox: Sandbox, backend: str, host: Host) -> None:
    programs = [program for program in attacks() if program.family is Family.FORGE]
    wrong = wrong_verdicts(sandbox, fitting(programs, backend), host)
    assert wrong == {}
    assert host.remains() == []


def test_none_is_believed_beside_other_instructions_either(
    sandbox: Sandbox, backend: str, host: Host
) -> None:
    """A sample, each with an instruction that it may pass: that changes nothing for the one that it
    must not.
    """
    programs = random.Random(os.environ[SEED]).sample(
        fitting([*attacks(), *legitimate_programs()], backend), 60
    )

    def passes(program: Program) -> bool:
        baited = program.with_baits(host.baits)
        suites = [statement_tests(tests) for tests in (("pass",), baited.tests, baited.tests)]
        limits = (
            host.limits
            if not program.must_pass
            else host.limits.model_copy(update={"wall_s": 30.0, "cpu_s": 5.0})
        )
        said = run_together(sandbox, baited.code, suites, limits)
        return any(
            verdict is not None and verdict.outcome is Outcome.PASSED for verdict in said[1:]
        )

    with ThreadPoolExecutor(AT_ONCE) as threads:
        passed = dict(zip(programs, threads.map(passes, programs), strict=True))
    assert [program.title for program, has in passed.items() if has and not program.must_pass] == []
    honest = [has for program, has in passed.items() if program.must_pass]
    assert sum(honest) >= 0.8 * len(honest)
    assert host.remains() == []


def test_programs_that_only_look_odd_pass(sandbox: Sandbox, backend: str, host: Host) -> None:
    assert wrong_verdicts(sandbox, fitting(legitimate_programs(), backend), host) == {}
    assert host.remains() == []


def test_what_is_left_is_found(sandbox: Sandbox, host: Host, tmp_path: Path) -> None:
    """The look at the host sees a program while it runs, and a file that one would have left."""
    started, limits = time.monotonic(), host.limits.model_copy(update={"wall_s": 1.5})
    running = threading.Thread(
        target=run_function_tests,
        args=(sandbox, "import time\ntime.sleep(60)", ("pass",), limits),
        daemon=True,
    )
    running.start()
    while not (
        seen := [pid for pid in os.listdir("/proc") if pid.isdigit() and host.is_marked(int(pid))]
    ):
        assert time.monotonic() < started + 60
    running.join()
    left = Path("/tmp") / host.baits["MARK"]
    left.touch()
    try:
        assert host.remains() == [str(left)]
    finally:
        left.unlink()
    assert seen


def test_the_corpus_is_as_large_as_it_says() -> None:
    titles = [program.title for program in corpus()]
    assert len(titles) == len(set(titles))
    count = {family: sum(program.family is family for program in corpus()) for family in Family}
    assert min(count[Family.ESCAPE], count[Family.FORGE], count[Family.EXHAUST]) >= 20
    for backend in SANDBOXES.built_in:
        assert (
            sum(
                len(fitting([p for p in attacks() if p.family is family], backend))
                for family in Family
            )
            >= 60
        )
    assert len(legitimate_programs()) >= 20


PLAIN_RUNNER = """\
import ast, sys
code, *tests = (open(name).read() for name in sys.argv[1:])
names = {"__name__": "__main__", "__file__": "program.py"}
exec(compile(code, "program.py", "exec"), names)
for text in tests:
    for statement in ast.parse(text).body: exec(compile(ast.Module([statement], []), "<tests>", "exec"), names)
"""
"""Judges as if candidates were honest: exit status 0 is a pass."""


def test_attacks_are_real(tmp_path: Path) -> None:
    """Where nothing isolates, the escapes get there, and forged programs pass."""
    sandbox = registry.load("none", slots=AT_ONCE, slot_directory=tmp_path)
    limits = Limits(cpu_s=5, wall_s=30)

    def passes(program: Program) -> bool:
        tests = {f"test_{n}": text.encode() for n, text in enumerate(program.tests)}
        with sandbox.session(limits) as session:
            files = {"runner.py": PLAIN_RUNNER.encode(), "code": program.code.encode(), **tests}
            return (
                session.run(("{python}", "runner.py", "code", *tests), files=files).exit_code == 0
            )

    with planted_baits() as baits:
        programs = [
            program.with_baits(baits)
            for program in corpus()
            if program.harmless and not program.must_pass
        ]
        with ThreadPoolExecutor(4) as threads:
            real = {
                program.title
                for program, passed in zip(programs, threads.map(passes, programs), strict=True)
                if passed
            }
    unreal = {program.title for program in programs} - real
    assert {title for title in unreal if title.startswith("escape")} == {
        "escape: variables of the parent"
    }  # `none` hides them, too
    assert len(real) >= 50, unreal
