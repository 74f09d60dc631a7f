"""The requests that `benchmarks.same_answers` sends: every route, its options, and its refusals.

A request belongs to a group, and each group has a server of its own (`same_answers.GROUPS`). `{{name}}` stands for a
value that an earlier answer of the same group held, such as the id of a glossary.
"""

from benchmarks.recorded_requests.request import SENTENCES, Request
from benchmarks.recorded_requests.servers import all_requests

__all__ = ["SENTENCES", "Request", "all_requests"]
