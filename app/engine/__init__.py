"""From a domain request to tokens and back. Read in this order:

errors.py      what can go wrong, in words
jobs.py        what is asked and answered
look_jobs.py   and of a look into a translator
insights.py    of a text that is given: its tokens, gates and probabilities
streaming.py   answers bit by bit, to readers who may be slow
pool.py        front end: what is started, loaded and stopped
options.py     how it is set up
entrance.py    what a request passes on its way in, and keeps until it ends
translating.py translations: tokenized, admitted, asked, put together
planning.py    what is asked of each, once its texts are tokens
bounds.py      what may be asked of decoding
compelled.py   what a translation has to begin with and to hold
aligning.py    which source word each of its words comes from, and how probable its tokens are
repetition.py  whether a text goes round in circles
continuing.py  what lyricists write on, in the same way
attending.py   what a translator looks at
sizing.py      how large that answer would be, and what would fit
sides.py       both sides of a sentence that is looked into, as the model reads and writes them
words.py       which word a token belongs to
findings.py    what is asked of such a look, and what is found beside the maps
tracing.py     what a lyricist's gates do over a text, and how large that answer would be
scoring.py     how probable a given text is, in the same way
intake.py      texts to token ids, or a refusal that names the limit
asking.py      the messages that ask a device
library.py     the checkpoints that the front end knows, each in its current edition
kept.py        their files, although others may have taken their names since
card.py        the licence that a model card names
curves.py      how a model was trained: losses, scores and rates by update
left_files.py  files that a run left beside its weights, and that nobody has verified
shelf.py       models come and go while requests run
admission.py   who may come in
backlog.py     what one model was given to do and has not done yet
work.py        what was done for one request
counting.py    an engine that adds it up
throughput.py  how much is done in a second of work
switchboard.py who waits for what
writing.py     one text while it is written
detokenizing.py  tokens to text, a few at a time
token_texts.py which part of a text each token brought, where somebody asks
stopping.py    stop strings
metrics.py     what the front end counts, for Prometheus
meter.py       one sequence from its sending to its end
gauges.py      what is looked up at each scrape
series.py      the names and labels of all this
views.py       tokens and attention as people see them
expectations.py  what was expected of a text, as people see it
devices.py     all device processes, watched and respawned
placement.py   which device processes there are
device.py      the front end's end of one of them
frames.py      what it says, out of the bytes that come
messages.py    what crosses to a device process (msgpack, never pickle)
looks.py       what of it are looks at gates and at the probability of a text
worker.py      the device process: reads messages, drives the scheduler, writes answers
inbox.py       what it hears
loading.py     checkpoints are read beside the work
scheduler.py   which requests share the next step
lane.py        one model's requests there: who waits, who runs, whose time is over
waiting.py     whose turn it is to start
telling.py     when the tokens of streams leave the process
deadlines.py   whose time is over
runner.py      the only caller of torch
rewriting.py   what a translator writes without some heads, a step at a time
translator_look.py  its looks into a translator: maps, steps, statistics, alignment, heads taken away
looking.py     its looks at gates and at the probability of a text
looking_threads.py  and with how many threads
numbers.py     a model that computes none has nothing to show
out_of_memory.py  less work at once could succeed where this failed
"""
