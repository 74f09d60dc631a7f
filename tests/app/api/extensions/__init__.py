"""Translators in browsers."""
