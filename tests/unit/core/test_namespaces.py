from threadwire.core.namespaces import ByNamespace


def known(*namespaces):
    lists = ByNamespace(list)
    for ns in namespaces:
        lists.at(ns).append(ns)
    return lists


def test_each_namespace_has_its_own():
    namespaces = [(), ("a:1",), ("a:2",), ("a:1", "b:1"), ("b:1",), ("a:1", "1")]
    lists = known(*namespaces)
    assert [lists.at(ns) for ns in namespaces] == [[ns] for ns in namespaces]


def test_with_a_task_goes_all_that_it_called():
    called = [("a:1",), ("a:1", "1"), ("a:1", "b:1"), ("a:1", "b:1", "c:1")]
    others = [(), ("a:2",), ("a",), ("b:1",), ("b:1", "a:1")]
    lists = known(*called, *others)
    lists.task_ended((), "a", "1")
    assert [lists.at(ns) for ns in others] == [[ns] for ns in others]
    assert [lists.at(ns) for ns in called] == [[]] * len(called)


def test_the_end_of_an_inner_task_leaves_the_outer():
    lists = known(("a:1",), ("a:1", "b:1"), ("a:1", "b:2"))
    lists.task_ended(("a:1",), "b", "1")
    assert [lists.at(ns) for ns in [("a:1",), ("a:1", "b:1"), ("a:1", "b:2")]] == [[("a:1",)], [], [("a:1", "b:2")]]


def test_a_task_that_called_nothing_may_end_anywhere():
    lists = known(())
    lists.task_ended((), "a", "1")
    lists.task_ended(("x:1", "y:1"), "a", "1")
    assert lists.at(()) == [()]


def test_all_can_be_forgotten():
    lists = known((), ("a:1",))
    lists.clear()
    assert (lists.at(()), lists.at(("a:1",))) == ([], [])
