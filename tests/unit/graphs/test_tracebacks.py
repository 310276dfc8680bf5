import json
from pathlib import Path

import pytest

from threadwire.graphs.own_code import is_own_code
from threadwire.graphs.tracebacks import configure_tracebacks, fits_one_line, render_traceback


@pytest.fixture
def full():
    configure_tracebacks(full=True)
    yield
    configure_tracebacks(full=False)


def read(text):
    return json.loads(text)


def raised(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_a_traceback_has_the_lines_of_the_project_and_hides_libraries():
    lines = render_traceback(raised(read, "{")).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.startswith(f'  File "{__file__}", line ') and line.endswith(", in read") for line in lines)
    assert "    return json.loads(text)" in lines
    assert not any("json/decoder.py" in line for line in lines)
    assert lines[-2].startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert lines[-1].endswith("lines of libraries hidden; THREADWIRE_LOG_LEVEL=debug shows them)")


def test_a_full_traceback_has_every_line(full):
    text = render_traceback(raised(read, "{"))
    assert "json/decoder.py" in text
    assert "hidden" not in text


def test_a_traceback_without_lines_of_the_project_is_complete():
    error = raised(read, "{")
    outermost = error.__traceback__.tb_next.tb_next
    text = render_traceback(error.with_traceback(outermost))
    assert "json/__init__.py" in text
    assert "hidden" not in text


def test_causes_and_groups_are_trimmed_too():
    cause = raised(read, "{")
    error = ExceptionGroup("several", [raised(read, "[")])
    error.__cause__ = cause
    text = render_traceback(error)
    assert text.count(", in read") == 2
    assert "json/decoder.py" not in text


def test_values_of_variables_are_not_included():
    def fail(password):
        raise ValueError("wrong")

    assert "hunter2" not in render_traceback(raised(fail, "hunter2"))


def test_an_error_that_cannot_be_rendered_is_named():
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError

    def fail():
        raise Unprintable

    assert "Unprintable: <exception str() failed>" in render_traceback(raised(fail))


def test_an_error_of_one_line_of_the_project_fits_one_line():
    namespace = {}
    code = compile("def fail(text): raise ValueError(text)", "/home/me/project/agent.py", "exec")
    exec(code, namespace)
    error = raised(namespace["fail"], "no key")
    assert not fits_one_line(error)  # two lines: this file called the other
    error.__traceback__ = error.__traceback__.tb_next.tb_next
    assert fits_one_line(error)


def test_an_error_with_a_long_message_or_a_cause_does_not_fit_one_line():
    assert fits_one_line(ValueError("no key"))
    assert not fits_one_line(ValueError("no key\nlong explanation"))
    error = ValueError("no key")
    error.__cause__ = KeyError("key")
    assert not fits_one_line(error)


def test_a_full_traceback_never_fits_one_line(full):
    assert not fits_one_line(ValueError("no key"))


@pytest.mark.parametrize(
    ("filename", "own"),
    [
        ("/home/me/project/agent.py", True),
        ("/home/me/project/.venv/lib/python3.11/site-packages/agent.py", False),
        ("/usr/lib/python3/dist-packages/agent.py", False),
        (json.__file__, False),
        (str(Path(is_own_code.__code__.co_filename)), False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
    ],
)
def test_libraries_and_the_server_are_not_the_projects_own_code(filename, own):
    assert is_own_code(filename) == own
