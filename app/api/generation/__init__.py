"""POST /generate: character models continue a text."""
