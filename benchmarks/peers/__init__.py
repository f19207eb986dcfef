"""The methods that the benchmarks compare with."""
