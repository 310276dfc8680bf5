import json
import pickle
import threading
from dataclasses import dataclass

import pytest

from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config
from threadwire.graphs.persistence import CheckpointerConfig, IndexConfig, StoreConfig, ThreadTtlConfig, TtlConfig
from threadwire.graphs.serializer import checkpoint_serializer
from threadwire.graphs.source import CodeSource


@pytest.fixture
def read(tmp_path):
    def read(**keys):
        path = tmp_path / "langgraph.json"
        path.write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}, **keys}))
        return load_config(path)

    return read


def test_nothing_said_is_the_servers_own(read):
    config = read(store=None, checkpointer={})
    assert (config.store, config.checkpointer) == (StoreConfig(), CheckpointerConfig())


def test_a_store_says_how_it_is_indexed_and_how_long_it_keeps(read):
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
    ("embed", "read_as"),
    [
        ("./embed.py:texts", CodeSource("./embed.py", "texts")),
        ("src/app.py:embeddings", CodeSource("src/app.py", "embeddings")),
        ("my_agent.vectors:embed", CodeSource("my_agent.vectors", "embed")),
        ("cohere:embed-english-v3.0", "cohere:embed-english-v3.0"),
        ("ollama:nomic", "ollama:nomic"),
        ("bedrock:amazon.titan-embed-text-v2:0", "bedrock:amazon.titan-embed-text-v2:0"),
    ],
)
def test_an_embedding_is_code_or_a_providers_model(read, embed, read_as):
    assert read(store={"index": {"dims": 3, "embed": embed}}).store.index == IndexConfig(3, read_as)


def test_a_project_brings_its_own(read):
    config = read(store={"path": "./keep.py:store"}, checkpointer={"path": "keep.savers:make"})
    assert config.store.source == CodeSource("./keep.py", "store")
    assert config.checkpointer.source == CodeSource("keep.savers", "make")


def test_types_are_named_or_all_are_allowed(read):
    serde = {"allowed_json_modules": [["a", "b", "C"]], "allowed_msgpack_modules": True, "pickle_fallback": False}
    config = read(checkpointer={"serde": serde}).checkpointer
    assert (config.json_modules, config.msgpack_modules) == ((("a", "b", "C"),), True)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"store": 3}, '"store" must be an object, not a number.'),
        ({"store": {"index": []}}, '"store"."index" must be an object, not a list.'),
        ({"store": {"index": {"embed": "a:b"}}}, '"dims" must be the number of dimensions'),
        ({"store": {"index": {"dims": True, "embed": "a:b"}}}, '"dims" must be the number of dimensions'),
        ({"store": {"index": {"dims": 3}}}, 'embed" must be "provider:model" or "./file.py:function"'),
        ({"store": {"index": {"dims": 3, "embed": "nothing"}}}, 'must be "provider:model" or "./file.py:function"'),
        ({"store": {"index": {"dims": 3, "embed": "./a.py:b c"}}}, "does not say which object"),
        ({"store": {"index": {"dims": 3, "embed": "a:b", "fields": "text"}}}, '"fields" must be a list of paths'),
        ({"store": {"ttl": {"default_ttl": 0}}}, '"default_ttl" must be a number of minutes above 0.'),
        ({"store": {"ttl": {"default_ttl": "1"}}}, '"default_ttl" must be a number of minutes above 0.'),
        ({"store": {"ttl": {"refresh_on_read": 1}}}, '"refresh_on_read" must be true or false, not a number.'),
        ({"store": {"path": 3}}, "the path must be a text"),
        ({"store": {"path": "./a.py:b", "ttl": {}}}, '"store"."ttl" is for the server\'s own store'),
        ({"checkpointer": "x"}, '"checkpointer" must be an object, not a text.'),
        ({"checkpointer": {"path": "./a.py"}}, "does not say which object"),
        ({"checkpointer": {"path": "./a.py:b", "serde": {"pickle_fallback": False}}}, "give the one at"),
        ({"checkpointer": {"serde": {"pickle_fallback": True}}}, '"pickle_fallback" is not offered'),
        ({"checkpointer": {"serde": {"allowed_json_modules": ["a.b"]}}}, "must be true or a list like"),
        ({"checkpointer": {"serde": {"allowed_msgpack_modules": False}}}, "must be true or a list like"),
    ],
)
def test_what_makes_no_sense_is_refused_with_one_line(read, keys, sentence):
    with pytest.raises(ConfigError) as refusal:
        read(**keys)
    assert sentence in refusal.value.message
    assert "\n" not in refusal.value.message


@dataclass
class Nested:
    """A type that is not known to be safe."""

    n: int


def test_a_type_comes_back_only_if_it_is_allowed():
    by_name = checkpoint_serializer(CheckpointerConfig(msgpack_modules=((Nested.__module__, "Nested"),)))
    kept = by_name.dumps_typed(Nested(3))
    assert by_name.loads_typed(kept) == Nested(3)
    assert checkpoint_serializer(CheckpointerConfig(msgpack_modules=True)).loads_typed(kept) == Nested(3)
    assert checkpoint_serializer(CheckpointerConfig()).loads_typed(kept) != Nested(3)


def test_a_pickle_is_neither_written_nor_read():
    serializer = checkpoint_serializer(CheckpointerConfig(json_modules=True, msgpack_modules=True))
    kind, data = serializer.dumps_typed({"lock": (lock := threading.Lock())})
    assert kind == "msgpack"
    assert serializer.loads_typed((kind, data)) == {"lock": str(lock)}
    with pytest.raises(NotImplementedError):
        serializer.loads_typed(("pickle", pickle.dumps(1)))


def test_threads_are_kept_for_ever_unless_the_project_says_otherwise(read):
    for checkpointer in (None, {}, {"ttl": None}, {"ttl": {}}):
        assert read(checkpointer=checkpointer).checkpointer.ttl == ThreadTtlConfig(None, "delete", 5.0, 1000)


def test_a_project_may_say_how_long_threads_are_kept(read):
    ttl = {"strategy": "keep_latest", "default_ttl": 43200, "sweep_interval_minutes": 0.5, "sweep_limit": 7}
    assert read(checkpointer={"ttl": ttl}).checkpointer.ttl == ThreadTtlConfig(43200, "keep_latest", 0.5, 7)
    assert read(checkpointer={"ttl": {"default_ttl": 60}}).checkpointer.ttl == ThreadTtlConfig(60)


@pytest.mark.parametrize(
    ("ttl", "mistake"),
    [
        (5, '"checkpointer"."ttl" must be an object, not a number.'),
        ({"strategy": "forget"}, '"checkpointer"."ttl": "strategy" must be "delete" or "keep_latest".'),
        ({"default_ttl": 0}, '"checkpointer"."ttl": "default_ttl" must be a number of minutes above 0.'),
        ({"default_ttl": True}, '"checkpointer"."ttl": "default_ttl" must be a number of minutes above 0.'),
        (
            {"sweep_interval_minutes": "5"},
            '"checkpointer"."ttl": "sweep_interval_minutes" must be a number of minutes above 0.',
        ),
        ({"sweep_limit": 0.5}, '"checkpointer"."ttl": "sweep_limit" must be a number of threads above 0.'),
    ],
)
def test_a_ttl_of_threads_that_makes_no_sense_is_refused(read, ttl, mistake):
    with pytest.raises(ConfigError) as caught:
        read(checkpointer={"ttl": ttl})
    assert caught.value.message.endswith(f": {mistake}")
