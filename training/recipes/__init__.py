"""Named runs: functions that return a whole config. Their numbers come from the trials in `benchmarks/LOG.md`.

translators.py   tiny, small, base, and the tutorial's
lyricists.py     small, medium, and the tutorials'
"""
