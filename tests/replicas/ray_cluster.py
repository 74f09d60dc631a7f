"""python -m tests.replicas.ray_cluster PORT: the service on a Ray cluster of this machine, a head without cores and two
nodes with one core each, so that each node has one of the two replicas. Takes commands, one JSON each line, and answers
each with a line. A process of its own: Ray changes signals, logging and warnings of the process that it is in."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from typing import Any

from ray import init, serve, shutdown
from ray.cluster_utils import Cluster
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

NODE = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
ARGUMENTS = {"min_replicas": 2, "max_replicas": 2, "num_cpus": 1}
START_S = 300


def deploy(user_config: dict[str, Any] | None, arguments: dict[str, Any]) -> None:
    """As `serve deploy` does with a file: `serve.run` would replace the replicas for a new `user_config` too."""
    environment = {name: value for name, value in os.environ.items() if name.startswith("PARLANCE_")}
    application = {
        "name": "parlance",
        "import_path": "app.ray_app:app",
        "args": arguments,
        # Ray puts the interpreter into a line of bash without quotes
        "runtime_env": {"env_vars": environment, "py_executable": shlex.quote(sys.executable)},
        "deployments": [{"name": "parlance"} | ({} if user_config is None else {"user_config": user_config})],
    }
    _get_global_client().deploy_apps(ServeDeploySchema.model_validate({"applications": [application]}))
    time.sleep(1)  # the status of before is RUNNING too
    end = time.monotonic() + START_S
    while (status := serve.status().applications["parlance"]).status != "RUNNING":
        if status.status == "DEPLOY_FAILED" or time.monotonic() > end:
            reasons = [deployment.message for deployment in status.deployments.values()]
            raise RuntimeError(" ".join([status.message, *reasons]))
        time.sleep(0.2)


def main(port: int) -> None:
    cluster = Cluster(initialize_head=True, head_node_args=NODE | {"num_cpus": 0})
    nodes = [cluster.add_node(**NODE) for _ in range(2)]
    init(address=cluster.address, logging_level="warning", log_to_driver=False)
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
    deploy(None, ARGUMENTS)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command, argument = json.loads(line)
        answer: Any = "done"
        if command == "user_config":
            try:
                deploy(argument, ARGUMENTS)
            except RuntimeError as error:
                answer = str(error)
        elif command == "arguments":
            deploy(None, ARGUMENTS | argument)
        elif command == "status":
            deployment = serve.status().applications["parlance"].deployments["parlance"]
            answer = dict(deployment.replica_states)
        elif command == "remove_node":
            cluster.remove_node(nodes.pop(), allow_graceful=False)
        elif command == "add_node":
            nodes.append(cluster.add_node(**NODE))
        print(json.dumps(answer), flush=True)
    serve.shutdown()
    shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
