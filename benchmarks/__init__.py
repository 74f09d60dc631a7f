"""Every figure that we claim, against whom it is claimed, in one command each: python -m benchmarks.NAME [--json].

report.py        the form in which every benchmark ends
lyricists.py     the tutorials' RNN and GRU recipes against an independent reference
lyrics.py        lyricists on held-out text, beside what is published for tiny Shakespeare
decoding.py      our decoding against CTranslate2's and Hugging Face Marian's, the same weights, on a CPU
gpu.py           all that only a GPU can show, in one command: its tests, the race, the training step
gpu_race.py      our decoding on a CUDA device, against CTranslate2 or plain loops and against the bytes moved
gpu_memory.py    memory of a model and of its slots on a GPU; needs none
shapes.py        the shapes that are raced, with random weights
sentences.py     real sentences for the natural-length run
race.py          a scan for everybody's best setting, then turns, then ratios
processes.py     contenders in processes of their own, and the clock
ours.py          Parlance as a contender: the engine's own runner
steps.py         the time of one step, and the host's share of it
host_time.py     the host's time of one step by phase, with a device that computes nothing
precision.py     what int8 and bf16 change in BLEU and in answers
limit.py         the bytes that a step must move, and how fast a copy moves them
multi30k.py      a translator of real sentences: trained with several seeds, scored once each, served
multi30k_training.py  the teachers, what they make of the training set, and the student
domain_shift.py  a translator of captions tuned on railway talk, with and without mixing
marian_folder.py  Marian folders of OPUS-MT's shapes with random weights
opus_shapes.py   every shape that OPUS-MT publishes: imported, and its tokens against transformers' own
railway_talk.py  a made corpus of railway talk, for shifts in domain
railway_grammar.py  its sentences in German and English
railway_words.py  its words, from the tables in railway/
published_bleu.py  BLEU in the forms in which others published theirs
detection.py     how often the language of a short text is found
asked.py         the server over a folder of models, asked over HTTP
serving.py       the real server under load, against the same network behind LitServe and dynamic batching
guarded.py       what keys, limits, quotas, logs and traces cost
libretranslate.py  our server against LibreTranslate itself, with the same weights
widened.py       a trained network at the size of those that LibreTranslate ships
serving_race.py  the parts of a serving run
promises.py      what a serving run is to reach
sweep.py         arrival rates up to the knee
soak.py          an hour of all its work, with kills, reloads and overload: lost and wrong answers, memory, latencies
ray_replicas.py  two replicas on Ray Serve against one, and the cost of its proxy
front_ends.py    one front-end process against two, before an engine that answers from a script
page.py          a page of 300 paragraphs at once
first_paint.py   how long our own page takes to be seen, in Chromium
overhead.py      what HTTP and IPC cost
streams.py       lyricist streams against one nn.GRU loop
cancelling.py    what is still computed after a cancel
agreement.py     answers under load against answers alone
serving_sentences.py  what the servers are asked
served.py        the models that are served
servers.py       our server and the peers as processes
engine.py        the engine alone
roofline.py      the share of a CPU's int8 peak and bandwidth that a decoding cell reaches
load.py          open-loop Poisson and closed-loop load
wire.py          a lean HTTP client
occupancy.py     how full the slots were
distribution.py  percentiles
training.py      tokens a second in training, against a plain torch.nn.Transformer loop; the waste of padding
training_race.py the parts of that race
fidelity.py      terms, tags and layout that a translation has to keep
fidelity_terms.py  one term for each sentence
fidelity_texts.py  made-up pages and layouts
inspection.py    the bytes and the time of an answer of POST /attention, beside bertviz's page
exports.py       our tokens in transformers, CTranslate2 and onnxruntime, from exported folders
large_corpus.py  the memory of ten million pairs, from reading to updates, and resume to the bit
mfu.py           the share of a GPU's peak that training reaches, and the time to make a batch
peers/           whom we race
"""
