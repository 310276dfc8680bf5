"""What a project logs with Python's `logging`. Each test runs in its own process, which has its own logging."""

import re
import subprocess
import sys

import pytest

CONFIGURE = """
from threadwire.cli.logs import configure_logging
configure_logging({level!r})
import agent
"""


@pytest.fixture
def logged(tmp_path):
    """A function that runs code as a project's file and returns the lines it logs."""

    def run(code, level="info"):
        (tmp_path / "agent.py").write_text(code)
        command = [sys.executable, "-c", CONFIGURE.format(level=level)]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True, env={"NO_COLOR": "1"}
        )
        return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]

    return run


def without_time(line):
    found = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (\[.*)", line)
    assert found is not None, line
    return re.sub(" +", " ", found[1])


def test_messages_of_the_project_have_time_level_and_logger(logged):
    lines = logged("""
import logging
logging.info("to the root: %s", 1)
logging.getLogger("shop.orders").warning("careful")
logging.getLogger(__name__).debug("details")
""")
    assert list(map(without_time, lines)) == [
        "[info ] to the root: 1 [root]",
        "[warning ] careful [shop.orders]",
    ]


def test_the_level_applies_to_the_project_too(logged):
    code = "import logging\nfor level in (10, 20, 25, 30, 50): logging.log(level, 'at %d', level)"
    assert [line.split("at ")[1].split()[0] for line in logged(code, "warning")] == ["30", "50"]
    assert [line.split("at ")[1].split()[0] for line in logged(code, "debug")] == ["10", "20", "25", "30", "50"]


def test_libraries_log_from_warning_on(logged, tmp_path):
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "library.py").write_text("import logging\nlogging.info('request')\nlogging.warning('deprecated')")
    code = "import sys; sys.path.append('site-packages'); import library"
    assert list(map(without_time, logged(code))) == ["[warning ] deprecated [root]"]
    assert len(logged(code, "debug")) == 2


def test_an_exception_is_logged_with_its_traceback(logged):
    first, *rest = logged("""
import json, logging
try:
    json.loads("{")
except ValueError:
    logging.exception("not readable")
""")
    assert without_time(first) == "[error ] not readable [root]"
    assert rest[0] == "Traceback (most recent call last):"
    assert '    json.loads("{")' in rest


@pytest.mark.parametrize(
    "configure",
    [
        "logging.basicConfig(format='%(name)s says %(message)s')",
        "logging.basicConfig(format='%(name)s says %(message)s', force=True)",
        """
import logging.config
text = {"version": 1, "formatters": {"own": {"format": "%(name)s says %(message)s"}}, "root": {"handlers": ["own"]}}
logging.config.dictConfig({**text, "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}}})
""",
        """
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("%(name)s says %(message)s"))
logging.getLogger("shop").addHandler(handler)
""",
    ],
    ids=["basicConfig", "force", "dictConfig", "handler"],
)
def test_a_project_that_configures_logging_keeps_its_configuration(logged, configure):
    code = f"import logging\n{configure}\nlogging.getLogger('shop').warning('careful')"
    assert logged(code) == ["shop says careful"]


def test_a_level_that_the_project_configures_applies(logged):
    code = "import logging\nlogging.basicConfig(format='%(message)s'{})\nlogging.info('x')"
    assert logged(code.format("")) == []
    assert logged(code.format(", level='INFO'")) == ["x"]


def test_a_project_may_send_structlog_to_logging(logged):
    lines = logged("""
import structlog
structlog.configure(
    processors=[structlog.stdlib.render_to_log_kwargs],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)
structlog.get_logger("shop").warning("careful")
""")
    assert list(map(without_time, lines)) == ["[warning ] careful [shop]"]


def test_a_record_that_cannot_be_rendered_does_not_raise(logged):
    lines = logged("import logging\nlogging.warning('%d', 'x')\nlogging.warning('next')")
    assert without_time(lines[0]) == "[warning ] next [root]"
