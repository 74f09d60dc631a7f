"""From a text as people have it to the sentences that a model takes, and back: nothing of it is lost on the way.

job.py         what is asked and answered
pages.py       HTML: its texts asked as plain ones
translator.py  the way through
"""
