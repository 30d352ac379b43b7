"""Months of bad days in ten minutes: thousands of conversations under every fault at once. `make soak`, and a share of
a minute in every `make test`."""
