import os

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.backends.unisolated import UnisolatedSandbox
from sandbox.conformance import CASES, Case

ESCAPES = {
    "each_command_starts_clean",  # /tmp is the host's
    "links_do_not_lead_out",
    "scratch_space_is_limited",
    "processes_are_limited",
    "nothing_outlives_the_run",
    "host_file_is_unreadable",
    "host_file_is_unwritable",
    "parent_environment_is_unreachable",
    "host_network_is_unreachable",
    "host_abstract_socket_is_unreachable",
    "host_processes_are_out_of_reach",
    "no_privileges_are_left",
    "user_namespaces_are_denied",
    "ptrace_is_denied",
    "raw_sockets_are_denied",
    "host_devices_are_absent",
    "system_and_python_are_read_only",
    "mounts_are_denied",
}
"""The cases that a run without isolation must fail; started by an ordinary user, the kernel itself
denies mounts.
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bubblewrap_conforms(bubblewrap: BubblewrapSandbox, case: Case):
    assert case.violation(bubblewrap) == ""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_unisolated_sandbox_fails_exactly_the_escapes(case: Case):
    expected = case.name in ESCAPES - (set() if os.geteuid() == 0 else {"mounts_are_denied"})
    assert bool(case.violation(UnisolatedSandbox())) is expected


def test_every_escape_is_a_case():
    names = [case.name for case in CASES]
    assert set(names) >= ESCAPES
    assert len(names) == len(set(names))
