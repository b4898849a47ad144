"""Tables checked by another process: the same checks as in this one, also where that process has
died or a suite is unknown.
"""

import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

from schemas.errors import UnknownName
from schemas.lake.rows import to_arrow
from tests.warehouse.checked_tables import full_context, valid_tables
from warehouse.checks import check_table
from warehouse.checks.service import WarehouseProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service() -> Iterator[WarehouseProcess]:
    started = WarehouseProcess()
    yield started
    started.close()


def test_it_finds_what_this_process_finds(service: WarehouseProcess) -> None:
    scores, context = valid_tables()["scores"], full_context()
    assert service.call(check_table, "scores", scores, context) == check_table(
        "scores", scores, context
    )
    problems = valid_tables()["problems"]
    failed = [
        check.expectation
        for check in service.call(check_table, "problems", problems.slice(1), context)
        if not check.success
    ]
    assert failed
    assert failed == [
        check.expectation
        for check in check_table("problems", problems.slice(1), context)
        if not check.success
    ]


def test_an_error_is_raised_where_the_table_was_handed_in(service: WarehouseProcess) -> None:
    with pytest.raises(UnknownName, match="nights"):
        service.call(check_table, "nights", to_arrow("scores", ()), full_context())


def test_a_call_gets_its_own_result_after_functions_begun_before(
    service: WarehouseProcess,
) -> None:
    service.begin(len, "four")
    service.begin(len, 4)  # Its TypeError is nobody's.
    assert service.call(len, "seven..") == 7
    assert service.call(len, "five.") == 5


def test_a_dead_process_costs_no_check(service: WarehouseProcess) -> None:
    scores, context = valid_tables()["scores"], full_context()
    mortal = WarehouseProcess()
    mortal._process.kill()
    mortal._process.wait()
    mortal.begin(check_table, "scores", scores, context)
    assert mortal.call(check_table, "scores", scores, context) == check_table(
        "scores", scores, context
    )
    mortal.close()


def test_it_ends_without_a_word_where_nobody_reads_its_answer_any_more() -> None:
    command = (sys.executable, "-P", "-m", "warehouse.checks.service")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        pickle.dump((check_table, ("no such table", None, None), {}), process.stdin)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
