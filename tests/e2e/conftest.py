from harness import data  # noqa: F401  (a fixture)
