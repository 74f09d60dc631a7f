"""From a text as people have it to the sentences that a model takes, and back: nothing of it is lost on the way.

job.py         what is asked and answered
pages.py       HTML: its texts asked as plain ones
translator.py  the way through
layout.py      pieces to translate, and what stands between them
halving.py     pieces that the model has no room for
sentence.py    a sentence without what the model cannot read
tidying.py     what the model writes, without layout of its own
asking.py      the engine is asked, each sentence once
cache.py       what was asked before
task.py        a sentence, and what its translation has to hold
faithful.py    what a translation has to hold, it holds
mending.py     numbers that were lost
obeying.py     sentences with terms of a glossary
terms.py       terms, each in its place
placing.py     where what was taken out belongs
edits.py       changes of a translation
assembly.py    sentences become a text again
showing.py     sentences are shown in order while they are written
"""
