import asyncio
import json
import sys
import threading
from contextlib import asynccontextmanager

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from threadwire.errors import ConfigError
from threadwire.graphs.brought import BroughtSaver
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.memory import load_memory
from threadwire.graphs.modules import ProjectModules
from threadwire.graphs.user_loop import UserLoop
from threadwire.storage.memory import open_memory_storage

pytestmark = pytest.mark.anyio

CODE = """
import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

told = []

instance = InMemorySaver()
a_class = InMemorySaver

def function():
    return InMemorySaver()

async def async_function():
    await asyncio.sleep(0)
    return InMemorySaver()

@contextmanager
def context():
    told.append(("opened", threading.current_thread().name))
    yield InMemorySaver()
    told.append(("closed", threading.current_thread().name))

@asynccontextmanager
async def async_context():
    told.append(("opened", asyncio.current_task()))
    yield InMemorySaver()
    told.append(("closed", asyncio.current_task()))

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
def memory(tmp_path, monkeypatch):
    """What a project with these keys loads."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def memory(**keys):
        (tmp_path / "keep.py").write_text(CODE)
        path = tmp_path / "langgraph.json"
        path.write_text(json.dumps({"graphs": {"agent": "./keep.py:number"}, **keys}))
        config = load_config(path)
        prepare_environment(config)
        modules = ProjectModules(config.root)
        return load_memory(config, modules)

    yield memory
    for name in {name for name in set(sys.modules) - before if name.startswith(("threadwire_graphs_", "keep"))}:
        del sys.modules[name]


@pytest.fixture
def loop():
    with UserLoop("test") as loop:
        yield loop


@pytest.mark.parametrize("form", ["instance", "a_class", "function", "async_function", "context", "async_context"])
async def test_a_saver_may_be_brought_in_any_form(memory, loop, form):
    brought = memory(checkpointer={"path": f"./keep.py:{form}"})
    assert brought.is_brought
    async with brought.open_saver(loop) as opened:
        assert isinstance(opened, BroughtSaver)
        assert isinstance(opened.saver, InMemorySaver)


async def test_what_is_opened_on_the_loop_is_closed_there_by_the_same_task(memory, loop):
    brought = memory(checkpointer={"path": "./keep.py:async_context"})
    told = brought.saver.target.__wrapped__.__globals__["told"]
    async with brought.open_saver(loop):
        assert [word for word, _ in told] == ["opened"]
    (opened, first), (closed, second) = told
    assert (opened, closed) == ("opened", "closed")
    assert first is second


async def test_it_is_closed_also_when_the_block_fails(memory, loop):
    brought = memory(checkpointer={"path": "./keep.py:context"})
    told = brought.saver.target.__wrapped__.__globals__["told"]
    with pytest.raises(ExceptionGroup):
        async with brought.open_saver(loop):
            raise ValueError("anything")
    assert told[0] == ("opened", "threadwire-test")


async def test_a_store_is_called_on_the_loop_where_it_was_opened(memory, loop):
    brought = memory(store={"path": "./keep.py:store"})
    async with open_memory_storage() as storage, brought.open_store(loop, storage.items, lambda: 0) as home:
        assert home.loop is loop
        assert home.of("ada") is home.of("bob")
        assert isinstance(home.of(None), InMemoryStore)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("wrong", '"checkpointer": ./keep.py:wrong gave int, which is no BaseCheckpointSaver.'),
        ("number", '"checkpointer": ./keep.py:number gave int, which is no BaseCheckpointSaver.'),
        ("store", '"checkpointer": ./keep.py:store gave InMemoryStore, which is no BaseCheckpointSaver.'),
        ("broken", '"checkpointer": opening ./keep.py:broken failed: OSError: no database'),
    ],
)
async def test_what_is_no_saver_is_refused_when_it_is_opened(memory, loop, name, sentence):
    with pytest.raises(ExceptionGroup) as refusal:
        async with memory(checkpointer={"path": f"./keep.py:{name}"}).open_saver(loop):
            pass
    (error,) = refusal.value.exceptions
    assert isinstance(error, ConfigError)
    assert error.message.startswith(sentence)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"checkpointer": {"path": "./keep.py:nothing"}}, '"checkpointer": ./keep.py has no "nothing".'),
        ({"store": {"path": "./nowhere.py:x"}}, '"store": file not found: ./nowhere.py'),
        (
            {"store": {"index": {"dims": 1, "embed": "./keep.py:number"}}},
            '"store.index.embed": ./keep.py:number is neither a function of texts nor an Embeddings object.',
        ),
        (
            {"store": {"index": {"dims": 1, "embed": "openai:text-embedding-3-small"}}},
            '"store.index.embed": openai:text-embedding-3-small cannot be used: ',
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused_at_the_start(memory, keys, sentence):
    with pytest.raises(ConfigError) as refusal:
        memory(**keys)
    assert refusal.value.message.startswith(sentence)


def test_a_providers_model_is_made_by_langchain(memory, monkeypatch, tmp_path):
    package = tmp_path / "providers" / "langchain_openai"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from langchain_core.embeddings import DeterministicFakeEmbedding\n"
        "def OpenAIEmbeddings(model, **kwargs): return DeterministicFakeEmbedding(size=len(model))\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    config, embeddings = memory(store={"index": {"dims": 3, "embed": "openai:abc"}}).index
    assert config.dims == embeddings.size == 3


def test_a_file_named_twice_is_imported_once(memory):
    brought = memory(checkpointer={"path": "./keep.py:function"}, store={"path": "keep.py:store"})
    assert brought.saver.target.__globals__ is brought.store.target.__wrapped__.__globals__


async def test_the_newest_checkpoint_is_asked_for_on_the_savers_loop(loop):
    asked_on = []

    class Noting(InMemorySaver):
        async def aget_tuple(self, config):
            asked_on.append(threading.current_thread().name)
            return await super().aget_tuple(config)

    saver = BroughtSaver(Noting(), loop)
    assert await saver.newest("a thread") is None
    assert asked_on == ["threadwire-test"]


async def test_holding_waits_until_the_manager_is_left(loop):
    left = threading.Event()

    @asynccontextmanager
    async def manager():
        yield "value"
        await asyncio.sleep(0.01)
        left.set()

    async with loop.holding(manager()) as value:
        assert value == "value"
        assert not left.is_set()
    assert left.is_set()
