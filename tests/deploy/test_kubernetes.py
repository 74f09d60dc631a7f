"""deploy/kubernetes: objects that the API server's published schemas accept, pods that keep to the restricted profile,
and numbers that agree with the service's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.server import FLUSH_S
from app.settings import PREFIX, Settings
from tests.app.api.client import Client

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
OLDEST, NEWEST = "1.30", "1.37"


def objects_of(path: Path) -> Iterator[dict[str, Any]]:
    yield from filter(None, yaml.safe_load_all(path.read_text("utf-8")))


OBJECTS = [each for name in KUSTOMIZATION["resources"] for each in objects_of(FOLDER / name)]
TEMPLATES = {each["kind"]: each["spec"]["template"] for each in OBJECTS if each["kind"] in ("Deployment", "Job")}


def only(kind: str, name: str = "parlance") -> dict[str, Any]:
    (found,) = [each for each in OBJECTS if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


DEPLOYMENT = only("Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(SERVER,) = POD["containers"]


def settings() -> dict[str, str]:
    lines = (FOLDER / "settings.env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def probe_seconds(probe: dict[str, Any]) -> int:
    """Seconds of failure after which Kubernetes acts."""
    seconds: int = probe["periodSeconds"] * probe["failureThreshold"]
    return seconds


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_objects_match_the_published_schemas(version: str) -> None:
    for each in OBJECTS:
        kubernetes_validate.validate(each, version, strict=True)
    misspelt = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "minReadySecond": 5}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelt, version, strict=True)


def test_kustomization_lists_every_file() -> None:
    files = {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml"}
    (settings_map,) = KUSTOMIZATION["configMapGenerator"]
    assert files == {*KUSTOMIZATION["resources"], *settings_map["envs"]}
    assert settings_map["name"] == SERVER["envFrom"][0]["configMapRef"]["name"]
    images = {container["image"] for template in TEMPLATES.values() for container in template["spec"]["containers"]}
    assert images == {image["name"] for image in KUSTOMIZATION["images"]}
    assert only("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def restricted(pod: dict[str, Any]) -> None:
    """The fields that Kubernetes' profile "restricted" asks of a pod, and those that it leaves to the administrator."""
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False  # PARLANCE_PORT would be tcp://…
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] == security["runAsGroup"] == 10001
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
        *("persistentVolumeClaim", "secret", "configMap", "emptyDir")
    }
    for volume in pod["volumes"]:
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_pods_keep_to_the_restricted_profile(kind: str) -> None:
    restricted(TEMPLATES[kind]["spec"])


def test_user_of_the_pods_is_that_of_the_image() -> None:
    assert re.search(r"^USER 10001:10001$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    writable = {mount["mountPath"] for mount in SERVER["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/data", "/tmp"}
    assert {mount["name"] for mount in SERVER["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}


def test_selectors_match_the_pods_and_names_match_each_other() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert only("Service")["spec"]["selector"].items() <= labels.items()
    assert only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for spread in POD["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    assert TEMPLATES["Job"]["metadata"]["labels"]["app.kubernetes.io/name"] != labels["app.kubernetes.io/name"]
    target = only("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", DEPLOYMENT["metadata"]["name"])
    assert "replicas" not in DEPLOYMENT["spec"]  # each `kubectl apply` would undo what the autoscaler has decided
    claims = {each["metadata"]["name"] for each in OBJECTS if each["kind"] == "PersistentVolumeClaim"}
    for template in TEMPLATES.values():
        used = {v["persistentVolumeClaim"]["claimName"] for v in template["spec"]["volumes"] if len(v) == 2
                and "persistentVolumeClaim" in v}  # fmt: skip
        assert used and used <= claims


def test_probes_ask_routes_of_the_service_on_its_port() -> None:
    (port,) = SERVER["ports"]
    exposed = re.search(r"^EXPOSE (\d+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert exposed and port["containerPort"] == int(exposed[1])
    service = Client()
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        check = SERVER[name]["httpGet"]
        assert check["port"] == port["name"]
        assert service.get(check["path"]).status_code == 200
    assert only("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    # a pod that is not ready gets no requests, and is not killed for it
    assert SERVER["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert SERVER["livenessProbe"]["httpGet"]["path"] == "/health/live"


def test_models_have_time_to_load() -> None:
    """A device process may be started three times before the container is."""
    start_s = Settings.model_fields["worker_start_timeout_s"].default
    assert SERVER["startupProbe"]["httpGet"]["path"] == "/health/ready"
    assert probe_seconds(SERVER["startupProbe"]) >= 3 * start_s
    assert probe_seconds(SERVER["livenessProbe"]) > Settings.model_fields["worker_hang_timeout_s"].default


def test_pods_have_longer_to_stop_than_they_take_to_drain() -> None:
    """A preStop hook would add to that, in which the server says that it is ready."""
    assert "lifecycle" not in SERVER
    delay, drain = (float(settings()[f"{PREFIX}{name}"]) for name in ("SHUTDOWN_DELAY_S", "DRAIN_TIMEOUT_S"))
    assert delay >= 5  # for the cluster's proxies to learn of it
    assert POD["terminationGracePeriodSeconds"] >= delay + drain + FLUSH_S


def test_settings_are_settings_and_fit_the_requested_cores() -> None:
    names = {PREFIX + name.upper() for name in Settings.model_fields}
    text = (FOLDER / "settings.env").read_text("utf-8")
    assert set(re.findall(r"^#? ?(PARLANCE_\w+)=", text, re.MULTILINE)) <= names
    given = settings()
    Settings(**{name.removeprefix(PREFIX).lower(): value for name, value in given.items()})
    cores = int(given["PARLANCE_CPU_WORKERS"]) * int(given["PARLANCE_CPU_THREADS"])
    assert cores < int(SERVER["resources"]["requests"]["cpu"])  # the front end needs some of one too
    secrets = [name for name in given if name in ("PARLANCE_ADMIN_KEY", "PARLANCE_REDIS_URL")]
    assert secrets == []
