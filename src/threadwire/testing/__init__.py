"""Tools for testing graphs and Threadwire extensions. The conformance suites also need pytest and hypothesis."""
