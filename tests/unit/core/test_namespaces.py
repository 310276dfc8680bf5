from threadwire.core.namespaces import ByNamespace, is_below_task


def lists_at(*namespaces):
    lists = ByNamespace(list)
    for ns in namespaces:
        lists.at(ns).append(ns)
    return lists


def test_each_namespace_has_its_own_value():
    namespaces = [(), ("a:1",), ("a:2",), ("a:1", "b:1"), ("b:1",), ("a:1", "1")]
    lists = lists_at(*namespaces)
    assert [lists.at(ns) for ns in namespaces] == [[ns] for ns in namespaces]


def test_the_end_of_a_task_drops_every_namespace_that_it_called():
    called = [("a:1",), ("a:1", "1"), ("a:1", "b:1"), ("a:1", "b:1", "c:1")]
    others = [(), ("a:2",), ("a",), ("b:1",), ("b:1", "a:1")]
    lists = lists_at(*called, *others)
    lists.task_ended((), "a", "1")
    assert [lists.at(ns) for ns in others] == [[ns] for ns in others]
    assert [lists.at(ns) for ns in called] == [[]] * len(called)


def test_the_end_of_an_inner_task_keeps_the_outer_namespace():
    lists = lists_at(("a:1",), ("a:1", "b:1"), ("a:1", "b:2"))
    lists.task_ended(("a:1",), "b", "1")
    assert [lists.at(ns) for ns in [("a:1",), ("a:1", "b:1"), ("a:1", "b:2")]] == [[("a:1",)], [], [("a:1", "b:2")]]


def test_the_end_of_a_task_that_called_nothing_changes_nothing():
    lists = lists_at(())
    lists.task_ended((), "a", "1")
    lists.task_ended(("x:1", "y:1"), "a", "1")
    assert lists.at(()) == [()]


def test_clear_drops_everything():
    lists = lists_at((), ("a:1",))
    lists.clear()
    assert (lists.at(()), lists.at(("a:1",))) == ([], [])


def test_a_namespace_is_below_the_task_that_called_its_subgraph():
    assert is_below_task(("a:1",), (), "1")
    assert is_below_task(("a:1", "b:2", "c:3"), ("a:1",), "2")
    assert not is_below_task((), (), "1")
    assert not is_below_task(("a:1",), ("a:1",), "1")
    assert not is_below_task(("a:1", "b:2"), ("x:1",), "2")
    assert not is_below_task(("a:1", "b:2"), (), "2")
