"""Every figure of docs/measured.md, in one command each, with the peer that it is claimed against:
python -m benchmarks.NAME [--json].

What all share: `report` (options, rows, goals, JSON), `corpora` (sentences, and the commands that train), `servers`
(ours and the peers as processes), `wire` and `load` (the client), `processes` and `race` (contenders, a scan for
everybody's best setting, turns and ratios), `shapes` and `served` (models with random weights), `railway_talk` (a made
corpus). `peers/` holds whom we race. `same_answers` is a tool: it compares what two checkouts answer
(`recorded_requests` and requests/).
"""
