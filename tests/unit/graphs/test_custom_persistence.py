import asyncio
import json
import sys
import threading
from contextlib import asynccontextmanager

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.custom_persistence import CustomSaver
from threadwire.graphs.project_modules import ProjectModules
from threadwire.graphs.project_persistence import load_persistence
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.memory import open_memory_storage

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

CODE = """
import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

log = []

instance = InMemorySaver()
a_class = InMemorySaver

def function():
    return InMemorySaver()

async def async_function():
    await asyncio.sleep(0)
    return InMemorySaver()

@contextmanager
def context():
    log.append(("opened", threading.current_thread().name))
    yield InMemorySaver()
    log.append(("closed", threading.current_thread().name))

@asynccontextmanager
async def async_context():
    log.append(("opened", asyncio.current_task()))
    yield InMemorySaver()
    log.append(("closed", asyncio.current_task()))

@asynccontextmanager
async def store():
    yield InMemoryStore()

def wrong():
    return 3

def broken():
    raise OSError("no database")

def embed(texts):
    return [[1.0] for _ in texts]

number = 3
"""


@pytest.fixture
def load_project(tmp_path, monkeypatch):
    """Load the checkpointer and the store of a project with these keys."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def load(**keys):
        (tmp_path / "custom.py").write_text(CODE)
        path = tmp_path / "langgraph.json"
        path.write_text(json.dumps({"graphs": {"agent": "./custom.py:number"}, **keys}))
        config = load_config(path)
        prepare_environment(config)
        modules = ProjectModules(config.root)
        return load_persistence(config, modules)

    yield load
    for name in {name for name in set(sys.modules) - before if name.startswith(("threadwire_graphs_", "custom"))}:
        del sys.modules[name]


@pytest.fixture
def loop():
    with UserLoop("test") as loop:
        yield loop


@pytest.mark.parametrize("form", ["instance", "a_class", "function", "async_function", "context", "async_context"])
async def test_saver_may_be_provided_in_any_form(load_project, loop, form):
    loaded = load_project(checkpointer={"path": f"./custom.py:{form}"})
    assert loaded.is_custom
    async with loaded.open_saver(loop) as opened:
        assert isinstance(opened, CustomSaver)
        assert isinstance(opened.saver, InMemorySaver)


async def test_context_manager_is_entered_and_exited_by_the_same_task(load_project, loop):
    loaded = load_project(checkpointer={"path": "./custom.py:async_context"})
    log = loaded.saver.target.__wrapped__.__globals__["log"]
    async with loaded.open_saver(loop):
        assert [event for event, _ in log] == ["opened"]
    (opened, first), (closed, second) = log
    assert (opened, closed) == ("opened", "closed")
    assert first is second


async def test_saver_is_closed_when_the_block_raises(load_project, loop):
    loaded = load_project(checkpointer={"path": "./custom.py:context"})
    log = loaded.saver.target.__wrapped__.__globals__["log"]
    with pytest.raises(ExceptionGroup):
        async with loaded.open_saver(loop):
            raise ValueError("anything")
    assert log[0] == ("opened", "threadwire-test")


async def test_store_belongs_to_the_loop_that_opened_it(load_project, loop):
    loaded = load_project(store={"path": "./custom.py:store"})
    async with open_memory_storage() as storage, loaded.open_store(loop, storage.items, lambda: 0) as home:
        assert home.loop is loop
        assert home.for_owner("ada") is home.for_owner("bob")
        assert isinstance(home.for_owner(None), InMemoryStore)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "wrong",
            '"checkpointer": ./custom.py:wrong must be a BaseCheckpointSaver, or a function or context manager '
            "(sync or async) that returns one, not int.",
        ),
        (
            "number",
            '"checkpointer": ./custom.py:number must be a BaseCheckpointSaver, or a function or context manager '
            "(sync or async) that returns one, not int.",
        ),
        (
            "store",
            '"checkpointer": ./custom.py:store must be a BaseCheckpointSaver, or a function or context manager '
            "(sync or async) that returns one, not InMemoryStore.",
        ),
        ("broken", '"checkpointer": opening ./custom.py:broken failed: OSError: no database'),
    ],
)
async def test_opening_rejects_what_is_not_a_saver(load_project, loop, name, message):
    with pytest.raises(ExceptionGroup) as caught:
        async with load_project(checkpointer={"path": f"./custom.py:{name}"}).open_saver(loop):
            pass
    (error,) = caught.value.exceptions
    assert isinstance(error, ConfigError)
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"checkpointer": {"path": "./custom.py:nothing"}}, '"checkpointer": ./custom.py has no "nothing".'),
        ({"store": {"path": "./nowhere.py:x"}}, '"store": file not found: ./nowhere.py'),
        (
            {"store": {"index": {"dims": 1, "embed": "./custom.py:number"}}},
            '"store.index.embed": ./custom.py:number is neither a function nor an Embeddings object.',
        ),
        (
            {"store": {"index": {"dims": 1, "embed": "openai:text-embedding-3-small"}}},
            '"store.index.embed": openai:text-embedding-3-small cannot be used: ',
        ),
    ],
)
def test_loading_rejects_a_missing_or_invalid_object(load_project, keys, message):
    with pytest.raises(ConfigError) as caught:
        load_project(**keys)
    assert caught.value.message.startswith(message)


def test_provider_model_is_created_by_langchain(load_project, monkeypatch, tmp_path):
    package = tmp_path / "providers" / "langchain_openai"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from langchain_core.embeddings import DeterministicFakeEmbedding\n"
        "def OpenAIEmbeddings(model, **kwargs): return DeterministicFakeEmbedding(size=len(model))\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    config, embeddings = load_project(store={"index": {"dims": 3, "embed": "openai:abc"}}).index
    assert config.dims == embeddings.size == 3


def test_file_named_twice_is_imported_once(load_project):
    loaded = load_project(checkpointer={"path": "./custom.py:function"}, store={"path": "custom.py:store"})
    assert loaded.saver.target.__globals__ is loaded.store.target.__wrapped__.__globals__


async def test_newest_checkpoint_is_read_on_the_saver_loop(loop):
    called_on = []

    class RecordingSaver(InMemorySaver):
        async def aget_tuple(self, config):
            called_on.append(threading.current_thread().name)
            return await super().aget_tuple(config)

    saver = CustomSaver(RecordingSaver(), loop)
    assert await saver.newest("a thread") is None
    assert called_on == ["threadwire-test"]


async def test_holding_waits_until_the_manager_has_exited(loop):
    exited = threading.Event()

    @asynccontextmanager
    async def manager():
        yield "value"
        await asyncio.sleep(0.01)
        exited.set()

    async with loop.enter(manager()) as value:
        assert value == "value"
        assert not exited.is_set()
    assert exited.is_set()
