"""What deepl-python's own suite checks, written anew: PyPI's package is published without it.

One test here for each of the 154 that its suite runs against a server other than DeepL's. What that suite asks of
DeepL's mock server (429, no answer), `Between` and keys with limits do here. `test_suites.py` runs these files."""
