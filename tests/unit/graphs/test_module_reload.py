import importlib
import os
import sys
import sysconfig
from pathlib import Path

import pytest

from threadwire.graphs.module_reload import drop_bytecode, own_modules, unloaded_modules


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An importable folder with modules, a package and an installed library."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "lib" / "site-packages")])
    before = set(sys.modules)
    for name, text in {
        "tw_alone.py": "VALUE = 1",
        "tw_package/__init__.py": "",
        "tw_package/inner.py": "from tw_alone import VALUE",
        "tw_bare/inner.py": "VALUE = 2",
        "lib/site-packages/tw_installed.py": "VALUE = 3",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


OWN = {"tw_alone", "tw_package", "tw_package.inner", "tw_bare", "tw_bare.inner"}


def load_all():
    return [importlib.import_module(name) for name in ("tw_package.inner", "tw_bare.inner", "tw_installed", "json")]


def test_own_modules_are_those_in_the_folder_that_are_not_installed(project):
    load_all()
    assert set(own_modules([project])) == OWN
    assert set(own_modules([project / "tw_bare"])) == {"tw_bare", "tw_bare.inner"}
    assert set(own_modules([project / "tw_alone.py"])) == {"tw_alone"}
    assert own_modules([Path(str(project) + "-other")]) == {}


def test_threadwire_and_the_standard_library_are_never_own_modules(project):
    ours = [name for name in own_modules([Path(__file__).parents[3]]) if name.partition(".")[0] == "threadwire"]
    assert ours == []
    own = own_modules([Path(sysconfig.get_path("stdlib"))])
    assert not {"json", "sys", "asyncio"} & set(own)


def test_unloaded_modules_are_imported_again_and_old_ones_stay_usable(project):
    old_inner, *_, old_installed, _ = load_all()
    (project / "tw_alone.py").write_text("VALUE = 'new'")
    drop_bytecode(project / "tw_alone.py")
    with unloaded_modules([project]):
        inner, *_, installed, _ = load_all()
    assert (old_inner.VALUE, inner.VALUE) == (1, "new")
    assert sys.modules["tw_package.inner"] is inner
    assert installed is old_installed


def test_modules_are_restored_if_the_block_raises(project):
    load_all()
    before = own_modules([project])
    (project / "tw_fresh.py").write_text("VALUE = 4")

    def fail():
        with unloaded_modules([project]):
            load_all()
            importlib.import_module("tw_fresh")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert own_modules([project]) == before
    assert "tw_fresh" not in sys.modules


def test_edit_that_keeps_mtime_and_size_is_loaded(project):
    path = project / "tw_alone.py"
    stat = path.stat()
    assert importlib.import_module("tw_alone").VALUE == 1
    path.write_text("VALUE = 2")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    drop_bytecode(path)
    with unloaded_modules([project]):
        assert importlib.import_module("tw_alone").VALUE == 2
