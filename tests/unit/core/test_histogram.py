from threadwire.core.histogram import Histogram


def test_durations_are_counted_up_to_each_bound():
    histogram = Histogram([1, 2])
    for seconds in (0.5, 1, 1.5, 9):
        histogram.observe(seconds)
    assert histogram.cumulative() == [(1, 2), (2, 3)]
    assert (histogram.count, histogram.total) == (4, 12)
