"""What people who test graphs or extend Threadwire need. The conformance suites need pytest and hypothesis besides."""
