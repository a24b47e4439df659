"""The Helm chart: linted and rendered by Helm, and compared with the schemas of Kubernetes.

Nothing is installed in a Kubernetes. The ServiceMonitor, whose schema is not part of Kubernetes, is only rendered.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from magnetar.broker.settings.loading import load
from tests.deploy import tools
from tests.kit.command_line import require_valid
from tests.unit.deploy.test_deploy import CHART

if TYPE_CHECKING:
    from pathlib import Path

KUBERNETES = "1.31"
VALIDATOR = "kubernetes-validate==1.37.0"
EVERYTHING: dict[str, Any] = {
    "clusterName": "ewr",
    "advertisedAddress": "broker.ewr.example",
    "config": {"httpRequestTimeoutSeconds": 2.5, "maxMessageSize": 10_485_760, "journalSyncData": True},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "messaging", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "podAnnotations": {"example": "yes"},
    "persistence": {"storageClass": "fast", "accessMode": "ReadWriteOncePod", "annotations": {"backup": "daily"}},
    "service": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"], "annotations": {"internal": "yes"}},
    "podDisruptionBudget": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "pipeline": {"enabled": True, "clusters": {"ewr": "http://ewr.example:8080", "jfk": "http://jfk.example:8080"}},
}
"""Values that switch everything on."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


class Helm:
    """Helm with the chart."""

    def __init__(self, program: str, directory: Path) -> None:
        """Run ``program``; ``directory`` is for files of values."""
        self._program = program
        self._directory = directory

    def run(self, *arguments: str, values: object) -> subprocess.CompletedProcess[str]:
        """Run Helm with ``values``."""
        file = self._directory / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        command = [self._program, *arguments, "--kube-version", f"{KUBERNETES}.0", "--values", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def render(self, values: object) -> dict[tuple[str, str], Any]:
        """Return the rendered objects by kind and name."""
        done = self.run("template", "north", str(CHART), "--namespace", "events", values=values)
        assert done.returncode == 0, done.stderr
        (self._directory / "rendered.yaml").write_text(done.stdout, encoding="utf-8")
        objects = [each for each in yaml.safe_load_all(done.stdout) if each]
        return {(each["kind"], each["metadata"]["name"]): each for each in objects}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tools.helm(tmp_path_factory.mktemp("bin")), tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", VALIDATOR], check=True)
    return [str(environment / "bin" / "kubernetes-validate"), "--strict", "--kubernetes-version", KUBERNETES]


@pytest.mark.parametrize("values", [{"clusterName": "ewr"}, EVERYTHING], ids=["defaults", "everything"])
def test_helm_finds_no_fault(helm: Helm, values: dict[str, Any]) -> None:
    done = helm.run("lint", str(CHART), "--strict", values=values)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", [{"clusterName": "ewr"}, EVERYTHING], ids=["defaults", "everything"])
def test_the_objects_have_the_fields_of_kubernetes(
    helm: Helm, validator: list[str], values: dict[str, Any], tmp_path: Path
) -> None:
    objects = helm.render(values)
    known = [each for (kind, _), each in objects.items() if kind != "ServiceMonitor"]
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(known), encoding="utf-8")
    done = subprocess.run([*validator, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == len(known)


def test_the_defaults_are_one_broker_with_a_disk(helm: Helm) -> None:
    objects = helm.render({"clusterName": "ewr"})
    assert sorted(objects) == [
        ("ConfigMap", "north-magnetar"),
        ("Service", "north-magnetar"),
        ("Service", "north-magnetar-pods"),
        ("StatefulSet", "north-magnetar"),
    ]
    broker = objects["StatefulSet", "north-magnetar"]["spec"]
    assert broker["replicas"] == 1
    assert broker["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOnce"]
    labels = broker["template"]["metadata"]["labels"]
    for name in ("north-magnetar", "north-magnetar-pods"):
        assert objects["Service", name]["spec"]["selector"].items() <= labels.items()


def test_everything_adds_the_pipeline_the_budget_and_the_monitor(helm: Helm) -> None:
    objects = helm.render(EVERYTHING)
    added = {kind for kind, _ in objects} - {kind for kind, _ in helm.render({"clusterName": "ewr"})}
    assert added == {"Deployment", "PodDisruptionBudget", "ServiceMonitor"}
    (container,) = objects["Deployment", "north-magnetar-pipeline"]["spec"]["template"]["spec"]["containers"]
    require_valid(container["args"])
    assert "ewr=http://ewr.example:8080,jfk=http://jfk.example:8080" in container["args"]
    monitor = objects["ServiceMonitor", "north-magnetar"]["spec"]
    (expression,) = monitor["selector"]["matchExpressions"]
    scraped = {
        port["name"]
        for (kind, _), each in objects.items()
        if kind == "Service" and each["metadata"]["labels"].get(expression["key"]) in expression["values"]
        for port in each["spec"]["ports"]
    }
    assert {endpoint["port"] for endpoint in monitor["endpoints"]} <= scraped


@pytest.mark.parametrize(
    ("values", "address"),
    [({"clusterName": "ewr"}, "north-magnetar.events.svc"), (EVERYTHING, "broker.ewr.example")],
    ids=["defaults", "everything"],
)
def test_a_broker_accepts_the_rendered_configuration(
    helm: Helm, values: dict[str, Any], address: str, tmp_path: Path
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(helm.render(values)["ConfigMap", "north-magnetar"]["data"]["broker.conf"], encoding="utf-8")
    loaded = load(file, {}, {})
    assert loaded.ignored == ()
    assert (loaded.config.clusterName, loaded.config.advertisedAddress) == ("ewr", address)
    for key, value in values.get("config", {}).items():
        assert getattr(loaded.config, key) == value


def test_a_changed_setting_restarts_the_broker(helm: Helm) -> None:
    def annotation(values: dict[str, Any]) -> str:
        template = helm.render(values)["StatefulSet", "north-magnetar"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    before = annotation({"clusterName": "ewr"})
    assert annotation({"clusterName": "ewr"}) == before
    assert annotation({"clusterName": "ewr", "config": {"logLevel": "debug"}}) != before


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "set clusterName"),
        ({"clusterName": "ewr", "config": {"dataDirectory": "/data"}}, "/config"),
        ({"clusterName": "ewr", "replicas": 2}, "replicas"),
        ({"clusterName": "ewr", "pipeline": {"enabled": True}}, "set pipeline.clusters"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, values: dict[str, Any], reason: str) -> None:
    done = helm.run("template", "north", str(CHART), values=values)
    assert done.returncode != 0
    assert reason in done.stderr
