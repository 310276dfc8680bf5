import resource
import subprocess
import sys

import pytest

from threadwire.server.descriptors import HEADROOM, OWN_FILES, divide


@pytest.mark.parametrize(
    ("descriptors", "connections", "runs"),
    [(1_000_000, 10_000, 1000), (4096, 3000, 1000), (1024, 464, 464), (256, 80, 80), (50, 1, 1)],
)
def test_descriptors_are_divided_between_connections_and_runs(descriptors: int, connections: int, runs: int) -> None:
    budget = divide(descriptors, 10_000, 1000)
    assert budget == (connections, runs)
    assert sum(budget) + OWN_FILES + HEADROOM <= descriptors or descriptors < 100


def test_few_runs_leave_more_to_connections() -> None:
    assert divide(256, 10_000, 10) == (150, 10)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    limits = "resource.getrlimit(resource.RLIMIT_NOFILE)"
    program = f"""
import resource
from threadwire.server.descriptors import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 1000))
print(raise_descriptor_limit(), *{limits})
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["1000"] * 3
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 200
