"""The configuration of a run: typed options, recipes, and run files in TOML."""
