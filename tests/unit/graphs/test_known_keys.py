from threadwire.graphs.known_keys import unknown_keys


def test_a_key_that_a_section_does_not_have_is_named_with_what_may_have_been_meant():
    content = {
        "graphs": {"agent": {"path": "./a.py:g", "descripton": "x"}, "other": "./a.py:g"},
        "http": {"disable_mpc": True, "cors": {"alow_origins": []}, "configurable_headers": {"only": []}},
        "store": {"index": {"dims": 3, "embed": "x", "model": "y"}},
    }
    assert unknown_keys(content) == [
        '"http"."disable_mpc" is not known and is ignored. Did you mean "disable_mcp"?',
        '"http"."cors"."alow_origins" is not known and is ignored. Did you mean "allow_origins"?',
        '"http"."configurable_headers"."only" is not known and is ignored.',
        '"store"."index"."model" is not known and is ignored.',
        '"graphs"."agent"."descripton" is not known and is ignored. Did you mean "description"?',
    ]


def test_sections_of_other_tools_are_left_alone_unless_they_look_misspelt():
    content = {"graphs": {}, "python_version": "3.12", "dockerfile_lines": [], "anything": {"x": 1}, "htttp": {}}
    assert unknown_keys(content) == ['"htttp" is not known and is ignored. Did you mean "http"?']


def test_what_is_known_is_not_told():
    content = {
        "graphs": {"agent": {"path": "x", "description": "y", "stream_models": False, "interrupt_outcome": False}},
        "env": {"ANYTHING": "x"},
        "dependencies": ["."],
        "checkpointer": {"path": "./savers.py:saver"},
        "store": {"path": "./stores.py:store"},
        "webhooks": {"headers": {"x-any": "y"}, "url": {"require_https": True}},
        "auth": {"path": "x", "openapi": {"securitySchemes": {"mine": {}}}},
        "ui": {"agent": "./ui.tsx"},
        "http": "not even an object",
    }
    assert unknown_keys(content) == []


def test_what_is_known_but_does_nothing_is_told():
    assert unknown_keys({"priority": {"path": "./p.py:key"}}) == [
        '"priority" is not offered and is ignored: runs begin in the order in which they are due.'
    ]
