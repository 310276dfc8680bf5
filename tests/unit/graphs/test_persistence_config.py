import json
import pickle
import threading
from dataclasses import dataclass

import pytest

from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.config import load_config
from threadwire.graphs.persistence_config import (
    CheckpointerConfig,
    IndexConfig,
    StoreConfig,
    ThreadTtlConfig,
    TtlConfig,
)
from threadwire.graphs.serializer import checkpoint_serializer


@pytest.fixture
def read(tmp_path):
    def read(**keys):
        path = tmp_path / "langgraph.json"
        path.write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}, **keys}))
        return load_config(path)

    return read


def test_built_in_store_and_checkpointer_are_the_default(read):
    config = read(store=None, checkpointer={})
    assert (config.store, config.checkpointer) == (StoreConfig(), CheckpointerConfig())


def test_store_index_and_ttl_are_read(read):
    config = read(
        store={
            "index": {"dims": 3, "embed": "openai:text-embedding-3-small", "fields": ["text", "a.b[*]"]},
            "ttl": {"default_ttl": 60, "refresh_on_read": False, "sweep_interval_minutes": 0.5},
        }
    )
    assert config.store == StoreConfig(
        index=IndexConfig(3, "openai:text-embedding-3-small", ("text", "a.b[*]")),
        ttl=TtlConfig(default=60, refresh_on_read=False, sweep_every=0.5),
    )


@pytest.mark.parametrize(
    ("embed", "expected"),
    [
        ("./embed.py:texts", CodeReference("./embed.py", "texts")),
        ("src/app.py:embeddings", CodeReference("src/app.py", "embeddings")),
        ("my_agent.vectors:embed", CodeReference("my_agent.vectors", "embed")),
        ("cohere:embed-english-v3.0", "cohere:embed-english-v3.0"),
        ("ollama:nomic", "ollama:nomic"),
        ("bedrock:amazon.titan-embed-text-v2:0", "bedrock:amazon.titan-embed-text-v2:0"),
    ],
)
def test_embed_is_code_or_a_provider_model(read, embed, expected):
    assert read(store={"index": {"dims": 3, "embed": embed}}).store.index == IndexConfig(3, expected)


def test_project_may_provide_its_own(read):
    config = read(store={"path": "./custom.py:store"}, checkpointer={"path": "custom.savers:make"})
    assert config.store.source == CodeReference("./custom.py", "store")
    assert config.checkpointer.source == CodeReference("custom.savers", "make")


def test_allowed_types_are_listed_or_all(read):
    serde = {"allowed_json_modules": [["a", "b", "C"]], "allowed_msgpack_modules": True, "pickle_fallback": False}
    config = read(checkpointer={"serde": serde}).checkpointer
    assert (config.json_modules, config.msgpack_modules) == ((("a", "b", "C"),), True)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"store": 3}, '"store" must be an object, not a number.'),
        ({"store": {"index": []}}, '"store"."index" must be an object, not a list.'),
        ({"store": {"index": {"embed": "a:b"}}}, '"dims" must be the number of dimensions'),
        ({"store": {"index": {"dims": True, "embed": "a:b"}}}, '"dims" must be the number of dimensions'),
        ({"store": {"index": {"dims": 3}}}, 'embed" must be "provider:model" or "./file.py:function"'),
        ({"store": {"index": {"dims": 3, "embed": "nothing"}}}, 'must be "provider:model" or "./file.py:function"'),
        ({"store": {"index": {"dims": 3, "embed": "./a.py:b c"}}}, "does not name an object"),
        ({"store": {"index": {"dims": 3, "embed": "a:b", "fields": "text"}}}, '"fields" must be a list of paths'),
        ({"store": {"ttl": {"default_ttl": 0}}}, '"default_ttl" must be a positive number of minutes.'),
        ({"store": {"ttl": {"default_ttl": "1"}}}, '"default_ttl" must be a positive number of minutes.'),
        ({"store": {"ttl": {"refresh_on_read": 1}}}, '"refresh_on_read" must be true or false, not a number.'),
        ({"store": {"path": 3}}, "the path must be a string"),
        ({"store": {"path": "./a.py:b", "ttl": {}}}, '"store"."ttl" applies to the built-in store only'),
        ({"checkpointer": "x"}, '"checkpointer" must be an object, not a string.'),
        ({"checkpointer": {"path": "./a.py"}}, "does not name an object"),
        ({"checkpointer": {"path": "./a.py:b", "serde": {"pickle_fallback": False}}}, "to the one at"),
        ({"checkpointer": {"serde": {"pickle_fallback": True}}}, '"pickle_fallback" is not supported'),
        ({"checkpointer": {"serde": {"allowed_json_modules": ["a.b"]}}}, "must be true or a list like"),
        ({"checkpointer": {"serde": {"allowed_msgpack_modules": False}}}, "must be true or a list like"),
    ],
)
def test_invalid_section_is_rejected_with_one_line(read, keys, message):
    with pytest.raises(ConfigError) as caught:
        read(**keys)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@dataclass
class Nested:
    """A type that is not known to be safe."""

    n: int


@pytest.mark.needs("langgraph-checkpoint", "4.0.1")
def test_type_is_constructed_only_if_allowed():
    by_name = checkpoint_serializer(CheckpointerConfig(msgpack_modules=((Nested.__module__, "Nested"),)))
    data = by_name.dumps_typed(Nested(3))
    assert by_name.loads_typed(data) == Nested(3)
    assert checkpoint_serializer(CheckpointerConfig(msgpack_modules=True)).loads_typed(data) == Nested(3)
    assert checkpoint_serializer(CheckpointerConfig()).loads_typed(data) != Nested(3)


def test_pickle_is_neither_written_nor_read():
    serializer = checkpoint_serializer(CheckpointerConfig(json_modules=True, msgpack_modules=True))
    kind, data = serializer.dumps_typed({"lock": (lock := threading.Lock())})
    assert kind == "msgpack"
    assert serializer.loads_typed((kind, data)) == {"lock": str(lock)}
    with pytest.raises(NotImplementedError):
        serializer.loads_typed(("pickle", pickle.dumps(1)))


def test_threads_do_not_expire_by_default(read):
    for checkpointer in (None, {}, {"ttl": None}, {"ttl": {}}):
        assert read(checkpointer=checkpointer).checkpointer.ttl == ThreadTtlConfig(None, "delete", 5.0, 1000)


def test_thread_ttl_is_read(read):
    ttl = {"strategy": "keep_latest", "default_ttl": 43200, "sweep_interval_minutes": 0.5, "sweep_limit": 7}
    assert read(checkpointer={"ttl": ttl}).checkpointer.ttl == ThreadTtlConfig(43200, "keep_latest", 0.5, 7)
    assert read(checkpointer={"ttl": {"default_ttl": 60}}).checkpointer.ttl == ThreadTtlConfig(60)


@pytest.mark.parametrize(
    ("ttl", "message"),
    [
        (5, '"checkpointer"."ttl" must be an object, not a number.'),
        ({"strategy": "forget"}, '"checkpointer"."ttl": "strategy" must be "delete" or "keep_latest".'),
        ({"default_ttl": 0}, '"checkpointer"."ttl": "default_ttl" must be a positive number of minutes.'),
        ({"default_ttl": True}, '"checkpointer"."ttl": "default_ttl" must be a positive number of minutes.'),
        (
            {"sweep_interval_minutes": "5"},
            '"checkpointer"."ttl": "sweep_interval_minutes" must be a positive number of minutes.',
        ),
        ({"sweep_limit": 0.5}, '"checkpointer"."ttl": "sweep_limit" must be a positive number of threads.'),
    ],
)
def test_invalid_thread_ttl_is_rejected(read, ttl, message):
    with pytest.raises(ConfigError) as caught:
        read(checkpointer={"ttl": ttl})
    assert caught.value.message.endswith(f": {message}")
