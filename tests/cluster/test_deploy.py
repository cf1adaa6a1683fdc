"""Tests for the example configurations in `deploy/`.

The tests have no parser for YAML, and Helm may not be installed. So they check what usually goes wrong: indentation,
quotes and brackets, placeholders, and names that belong together. If Helm is installed, it renders the chart.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.processes import BALANCERS, DEPLOY, PLACES, WAIT, Balancer, envoy_config, nginx_config
from tieline.app.config_file import ConfigFile, load_config

CHART = DEPLOY / "helm" / "tieline"
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
PLAIN = [DEPLOY / "envoy.yaml", DEPLOY / "compose.yaml", CHART / "Chart.yaml", CHART / "values.yaml"]


def check_yaml(text: str) -> dict[str, str]:
    """Check the structure of block-style YAML. Return the scalar values by their dotted path; lists are skipped."""
    values: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    block: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        content = re.sub(r"(?:^|\s)#.*", "", line).rstrip()
        indent = len(line) - len(line.lstrip(" "))
        if block is not None and (not line.strip() or indent > block):
            continue
        block = None
        if not content.strip():
            continue
        assert "\t" not in content, f"line {number}: a tab"
        assert indent % 2 == 0, f"line {number}: indented by {indent}"
        bare = re.sub(r'"[^"]*"|\'[^\']*\'', "", content)
        assert '"' not in bare, f"line {number}: a quote is not closed"
        for opening, closing in ("{}", "[]"):
            assert bare.count(opening) == bare.count(closing), f"line {number}: {opening} is not closed"
        item = re.match(r"(?:- )*", content.strip())
        assert item is not None
        indent += len(item[0])
        found = re.fullmatch(r"([\w./-]+|<<|\"[^\"]+\"):(?: (.*))?", content.strip()[len(item[0]) :])
        assert found or item[0], f"line {number}: neither a key nor an item: {line}"
        if found is None:
            continue
        while path and path[-1][0] >= indent:
            path.pop()
        path.append((indent, found[1]))
        value = found[2] or ""
        if value in ("|", ">"):
            block = indent
        values[".".join(name for _, name in path)] = value
    return values


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.name)
def test_a_file_is_well_formed(file: Path) -> None:
    assert check_yaml(file.read_text())


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_a_template_renders_to_a_well_formed_file(file: Path) -> None:
    text, values = file.read_text(), check_yaml((CHART / "values.yaml").read_text())
    assert text.count("{{") == text.count("}}")
    for name in re.findall(r"\.Values\.([\w.]+)", text):
        assert name in values, f"values.yaml has no {name}"
    assert set(re.findall(r"\{\{-? *\.(\w+)", text)) <= {"Values", "Release", "Chart"}
    rendered = re.sub(r"(?m)^\{\{.*indent (\d+) *\}\}$", lambda found: " " * int(found[1]) + "key: value", text)
    rendered = re.sub(r"\{\{.*?\}\}", '"value"', rendered)
    found = check_yaml(rendered)
    assert {"apiVersion", "kind", "metadata.name"} <= found.keys()


def rendered() -> dict[str, dict[str, str]]:
    """Let Helm render the chart. Return the values of each kind of object."""
    helm = shutil.which("helm") or shutil.which("helm", path=PLACES)
    if helm is None:
        pytest.skip("helm is not installed: install it with `make servers`")
    done = subprocess.run(  # noqa: S603 - a fixed program
        (helm, "template", "one", str(CHART)), capture_output=True, text=True, check=False, timeout=WAIT
    )
    assert done.returncode == 0, done.stderr
    found = [check_yaml(text) for text in done.stdout.split("---\n") if text]
    return {values["kind"]: values for values in found}


def test_the_private_port_is_reached_by_replicas_only() -> None:
    objects = rendered()
    service, policy, pod = objects["Service"], objects["NetworkPolicy"], objects["Deployment"]
    assert service["spec.ports.targetPort"] == "http"
    assert "cluster" not in service.values()
    # The last rule, which is the one for the private port.
    assert policy["spec.ingress.ports.port"] == "cluster"
    for label in ("app.kubernetes.io/name", "app.kubernetes.io/instance"):
        allowed = policy[f"spec.ingress.from.podSelector.matchLabels.{label}"]
        assert allowed == policy[f"spec.podSelector.matchLabels.{label}"]
        assert allowed == pod[f"spec.template.metadata.labels.{label}"]


def test_a_pod_runs_as_the_user_of_the_image_and_writes_to_its_volume_only() -> None:
    pod, image = rendered()["Deployment"], (DEPLOY.parent / "Dockerfile").read_text()
    assert re.findall(r"(?m)^USER (\d+):\d+$", image) == [pod["spec.template.spec.securityContext.runAsUser"]]
    container = "spec.template.spec.containers"
    assert pod[f"{container}.securityContext.readOnlyRootFilesystem"] == "true"
    assert "- name: state\n              mountPath: /data\n" in (CHART / "templates" / "deployment.yaml").read_text()
    assert "VOLUME /data\n" in image


def test_replicas_are_replaced_one_at_a_time_when_they_are_ready() -> None:
    objects = rendered()
    pod = objects["Deployment"]
    probes = [pod[f"spec.template.spec.containers.{name}Probe.httpGet.path"] for name in ("readiness", "liveness")]
    assert probes == ["/readyz", "/healthz"]
    assert pod["spec.strategy.rollingUpdate.maxUnavailable"] == "0"
    assert objects["PodDisruptionBudget"]["spec.maxUnavailable"] == "1"


def test_the_chart_gives_a_pod_enough_time_to_drain() -> None:
    values = check_yaml((CHART / "values.yaml").read_text())
    drain = re.search(r"drain_seconds = (\d+)", (CHART / "values.yaml").read_text())
    assert drain is not None
    needed = int(values["preStopSeconds"]) + int(drain[1])
    assert int(values["terminationGracePeriodSeconds"]) > needed


def test_the_configuration_of_the_replicas_is_valid() -> None:
    written = re.search(r"config: \|\n((?:  .*\n|\n)+)", (CHART / "values.yaml").read_text())
    assert written is not None
    inside = re.sub(r"(?m)^  ", "", written[1]).encode()
    for data in ((DEPLOY / "tieline.toml").read_bytes(), inside):
        config = load_config(ConfigFile(DEPLOY / "tieline.toml", data), {})
        assert (config.cluster.listen, config.store.url_env) == ("0.0.0.0:18751", "TIELINE_STORE_URL")


def test_all_examples_name_the_same_replicas() -> None:
    compose = check_yaml((DEPLOY / "compose.yaml").read_text())
    replicas = {name.split(".")[1] for name in compose if name.startswith("services.tieline-")}
    assert len(replicas) == 2
    for name in ("nginx.conf", "envoy.yaml"):
        assert set(re.findall(r"tieline-\d", (DEPLOY / name).read_text())) == replicas


@BALANCERS
def test_a_load_balancer_accepts_its_configuration(tmp_path: Path, balancer: type[Balancer]) -> None:
    checked = balancer(tmp_path, [18741, 18742]).check()
    assert checked.returncode == 0, checked.stderr


def test_the_tested_configurations_are_the_examples(tmp_path: Path) -> None:
    """Apart from addresses and places of files."""

    def changed(text: str, tested: str) -> list[str]:
        lines = tested.splitlines()
        return [line.strip() for line in text.splitlines() if "tieline-" not in line and line not in lines]

    nginx, envoy = ((DEPLOY / name).read_text() for name in ("nginx.conf", "envoy.yaml"))
    expected = ["worker_processes auto;", "listen 8080;"]
    assert changed(nginx, nginx_config(nginx, tmp_path, 8081, [1, 2])) == expected
    expected = ["socket_address: { address: 0.0.0.0, port_value: 8080 }"]
    assert changed(envoy, envoy_config(envoy, 8081, [1, 2])) == expected
