"""Helpers of the tests, the benchmarks and the generated pages."""
