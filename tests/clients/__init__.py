"""Other projects' clients, as their users install them, against a server of ours: `make test-clients`.

serving and keys are in conftest.py; node/ has the clients of npm, each driven by a script that prints one JSON value.
"""
