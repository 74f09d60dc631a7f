"""deploy/kuberay: the fields of a RayService, pods as the API server takes them and as the restricted profile asks, and
the same Serve configuration as deploy/ray.

KubeRay's own schema is a megabyte, nearly all of it Kubernetes' pod template, which `kubernetes_validate` has. FIELDS
are those of ray.io/v1 around it that this project uses, after KubeRay's published types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from app.server import FLUSH_S
from app.settings import PREFIX, Settings
from tests.deploy.test_kubernetes import NEWEST, OBJECTS, OLDEST, ROOT

SERVICE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/kuberay/rayservice.yaml").read_text("utf-8"))
CLUSTER: dict[str, Any] = SERVICE["spec"]["rayClusterConfig"]
GROUPS: list[dict[str, Any]] = [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]]

TEXT, COUNT, FLAG, ANY = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}, {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def fields(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}


GROUP = {"rayStartParams": TEXTS, "template": ANY}
FIELDS = fields(
    "serveConfigV2 rayClusterConfig",
    serveConfigV2=TEXT,
    excludeHeadPodFromServeSvc=FLAG,
    serveService=ANY,
    rayClusterConfig=fields(
        "headGroupSpec",
        rayVersion=TEXT,
        enableInTreeAutoscaling=FLAG,
        autoscalerOptions=fields(
            version={"enum": ["v1", "v2"]},
            upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
            idleTimeoutSeconds=COUNT,
            resources=ANY,
            securityContext=ANY,
        ),
        headGroupSpec=fields("rayStartParams template", serviceType=TEXT, **GROUP),
        workerGroupSpecs={
            "type": "array",
            "items": fields(
                "groupName rayStartParams template",
                groupName=TEXT,
                replicas=COUNT,
                minReplicas=COUNT,
                maxReplicas=COUNT,
                **GROUP,
            ),
        },
    ),
)


def pods() -> Iterator[dict[str, Any]]:
    for group in GROUPS:
        yield group["template"]["spec"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_rayservice_has_the_fields_that_kuberay_reads(version: str) -> None:
    assert (SERVICE["apiVersion"], SERVICE["kind"]) == ("ray.io/v1", "RayService")
    jsonschema.validate(SERVICE["spec"], FIELDS)
    for group in GROUPS:
        template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": group["template"]}
        kubernetes_validate.validate(template, version, strict=True)
    (workers,) = CLUSTER["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]


def test_ray_in_the_cluster_is_the_ray_of_the_image() -> None:
    pins = (ROOT / "constraints.txt").read_text("utf-8")
    assert f"ray=={CLUSTER['rayVersion']}\n" in pins
    images = {container["image"] for pod in pods() for container in pod["containers"]}
    assert images == {"parlance:ray"}


def test_serve_configuration_is_that_of_deploy_ray() -> None:
    """Only the folders differ: there those of a shared folder, here the volumes of the pods."""
    other = yaml.safe_load((ROOT / "deploy/ray/serve_config.yaml").read_text("utf-8"))
    own = yaml.safe_load(SERVICE["spec"]["serveConfigV2"])
    environments = [each["applications"][0]["runtime_env"].pop("env_vars") for each in (own, other)]
    assert own == other
    assert environments[0].keys() == environments[1].keys()
    assert set(environments[0]) <= {PREFIX + name.upper() for name in Settings.model_fields}
    (worker,) = GROUPS[1]["template"]["spec"]["containers"]
    mounts = [mount["mountPath"] for mount in worker["volumeMounts"]]
    for value in environments[0].values():
        assert not value.startswith("/") or any(f"{value}/".startswith(f"{mount}/") for mount in mounts)
    assert float(environments[0]["PARLANCE_CPU_WORKERS"]) < float(worker["resources"]["requests"]["cpu"])


def test_pods_of_ray_are_locked_down() -> None:
    for pod in pods():
        assert pod["enableServiceLinks"] is False
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
            assert {mount["name"] for mount in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
            # KubeRay's own probes call wget, which the image lacks
            assert all("httpGet" in container[name] for name in ("readinessProbe", "livenessProbe"))
    head, worker = pods()
    assert worker["automountServiceAccountToken"] is False
    # the head alone, for its autoscaler
    assert head["automountServiceAccountToken"] is CLUSTER["enableInTreeAutoscaling"] is True
    assert CLUSTER["autoscalerOptions"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_workers_have_longer_to_stop_than_replicas_take_to_drain() -> None:
    _, worker = pods()
    drain = Settings.model_fields["drain_timeout_s"].default
    assert worker["terminationGracePeriodSeconds"] >= drain + FLUSH_S


def test_every_pod_has_what_the_proxies_need_and_volumes_that_exist() -> None:
    documented = re.search(r"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=(\S+)", (ROOT / "docs/serving.md").read_text())
    assert documented
    for pod in pods():
        (container,) = pod["containers"]
        (variable,) = container["env"]
        assert f"{variable['name']}={variable['value']}" == documented[0]
    claims = {each["metadata"]["name"] for each in OBJECTS if each["kind"] == "PersistentVolumeClaim"}
    _, worker = pods()
    used = [volume["persistentVolumeClaim"]["claimName"] for volume in worker["volumes"] if
            "persistentVolumeClaim" in volume]  # fmt: skip
    assert set(used) == claims
