"""How many replicas Ray Serve runs. Ray's own policy counts HTTP requests, of which one may be a page of 500 texts: a
replica that refuses such pages with 429 would seem to have nothing to do. This one counts what the engines count.

Ray copies the function into its controller, which has neither our settings nor our packages: this module imports
none of them."""

from __future__ import annotations

from typing import Any

OUTSTANDING = "outstanding_sequences"  # of `Replica.record_autoscaling_stats`


def by_outstanding_work(context: Any) -> tuple[float, dict[str, Any]]:
    """Replicas that the outstanding work is enough for, at `target_ongoing_requests` each, before Ray applies delays
    and bounds. Work: the sequences that the engines have admitted and not answered, or Ray's requests if these are
    more, such as those on their way to a replica.

    context: Ray's AutoscalingContext. Returns the number and a state, which this policy does not need."""
    if context.current_num_replicas == 0:
        return context.target_num_replicas, {}
    by_replica = (context.aggregated_metrics or {}).get(OUTSTANDING, {})
    work = max(sum(by_replica.values()), context.total_num_requests)
    return work / context.config.get_target_ongoing_requests(), {}
