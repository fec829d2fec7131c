"""Files for clusters: scripts run with a scheduler's commands in place, manifests and an image that hold together."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from regard.server.api_error import ErrorReason
from regard.server.batching.metrics import ServerMetrics

from .documented import ROOT, Shown, problem, shown_in_recipe

DEPLOY = ROOT / "deploy"
SERVE_OPTIONS = DEPLOY / "serve.toml"
SCRIPTS = sorted(DEPLOY.glob("*.slurm"))
COMMENTED = [*SCRIPTS, *sorted(DEPLOY.glob("*.yaml")), DEPLOY / "Dockerfile"]
yaml: Any = pytest.importorskip("yaml")

SAYS_ITS_WORDS = """#!{python}
import json, os, sys
if sys.argv[1] == "show":
    print("first")
    print("second")
else:
    print(json.dumps(["{name}", sys.argv[1:], os.environ.get("OMP_NUM_THREADS")]), file=open("{told}", "a"))
    sys.exit({code} if "{name}" == "srun" else 0)
"""


def ran(script: str, words: list[str], folder: Path, *, code: int = 0, **environment: str) -> tuple[Any, list[Any]]:
    """A script run with the scheduler's commands in place; and what these were called with."""
    told = folder / "told"
    told.write_text("")
    for name in ("srun", "scontrol"):
        path = folder / name
        text = SAYS_ITS_WORDS.replace("{python}", sys.executable).replace("{told}", str(told))
        path.write_text(text.replace("{code}", str(code)).replace("{name}", name))
        path.chmod(0o755)
    given = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "OMP_", "BULK_"))}
    given |= {"PATH": f"{folder}:{os.environ['PATH']}", **environment}
    done = subprocess.run(
        ["bash", str(DEPLOY / script), *words], env=given, cwd=folder, capture_output=True, text=True, check=False
    )
    return done, [json.loads(line) for line in told.read_text().splitlines()]


JOB = {"SLURM_JOB_ID": "40007", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_CPUS_PER_TASK": "16"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_of_a_shell(path: Path) -> None:
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    text = path.read_text()
    head = text.partition("\nset -euo pipefail\n")[0]
    assert "#SBATCH" in head and "#SBATCH" not in text[len(head) :], "sbatch reads no option after the first command"
    assert re.search(r"^#SBATCH --signal=TERM@\d+$", head, re.MULTILINE) and "#SBATCH --requeue\n" in head


def test_a_job_of_two_nodes_starts_torchrun_on_each(tmp_path: Path) -> None:
    done, ((name, words, threads),) = ran(
        "train.slurm", ["part-*.en", "part-*.de", "--name", "a b"], tmp_path, SLURM_GPUS_ON_NODE="4", **JOB
    )
    assert done.returncode == 0 and name == "srun" and threads == "4"
    at = words.index("torchrun")
    assert words[words.index("-m") :] == ["-m", "regard", "train", "part-*.en", "part-*.de", "--name", "a b"]
    options = dict(zip(words[at + 1 : words.index("-m") : 2], words[at + 2 : words.index("-m") : 2], strict=True))
    assert options == {
        "--nnodes": "2", "--nproc-per-node": "4", "--max-restarts": "3", "--rdzv-backend": "c10d",
        "--rdzv-id": "40007.0", "--rdzv-endpoint": "first:20007",
    }  # fmt: skip


def test_a_job_without_gpus_starts_one_process_a_node(tmp_path: Path) -> None:
    _, ((_, words, threads),) = ran("train.slurm", ["multi30k"], tmp_path, **JOB)
    assert words[words.index("--nproc-per-node") + 1] == "1" and threads == "16"


@pytest.mark.parametrize(("code", "left", "requeued"), [(1, 60, True), (1, 3600, False), (0, 60, False)])
def test_a_job_goes_on_in_another_turn_where_its_time_was_over(
    tmp_path: Path, code: int, left: int, requeued: bool
) -> None:
    end = str(int(time.time()) + left)
    done, told = ran("train.slurm", ["multi30k"], tmp_path, code=code, SLURM_JOB_END_TIME=end, **JOB)
    assert done.returncode == code
    assert [words for name, words, _ in told if name == "scontrol"] == ([["requeue", "40007"]] if requeued else [])


def test_a_task_of_an_array_takes_its_shard(tmp_path: Path) -> None:
    words = ["translate", "runs/first", "out/", "a b.txt", "c.txt"]
    task = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "64"}
    done, ((_, told, _),) = ran("bulk.slurm", words, tmp_path, BULK_OPTIONS="--beam 4 --json", **task)
    command = told[told.index("regard") :]
    assert done.returncode == 0
    assert command == shlex.split("regard translate runs/first 'a b.txt' c.txt -o out/ --shard 3/64 --beam 4 --json")
    assert problem(Shown(tuple(command), True)) is None
    _, ((_, again, _),) = ran("bulk.slurm", words, tmp_path, **task | {"BULK_SHARDS": "8"})
    assert again[-2:] == ["--shard", "3/8"]
    refused, told = ran("bulk.slurm", words[:3], tmp_path, **task)
    assert refused.returncode == 2 and not told and "usage" in refused.stderr


@pytest.mark.parametrize("path", COMMENTED, ids=lambda path: path.name)
def test_commands_in_comments_can_be_run(path: Path) -> None:
    for shown in shown_in_recipe(path.read_text()):
        assert problem(shown) is None, shown
    for name in re.findall(r"deploy/[\w.-]+", path.read_text()):
        assert (ROOT / name.rstrip(".")).is_file(), name


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def of_torchrun(words: list[str]) -> Shown:
    """The command that ``torchrun … -m regard`` starts."""
    assert words[0] == "torchrun" and "--max-restarts" in words
    return Shown(tuple(words[words.index("-m") + 1 :]), True)


def test_an_indexed_job_meets_at_its_first_pod() -> None:
    service, job = documents("indexed-job.yaml")
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["selector"] == {"job-name": name} and service["metadata"]["name"] == pod["subdomain"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == 2
    (container,) = pod["containers"]
    (script,) = container["args"]
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
    words = shlex.split(script.partition("exec ")[2])
    assert words[words.index("--nnodes") + 1] == str(spec["completions"])
    assert (
        words[words.index("--rdzv-endpoint") + 1]
        == f"{name}-0.{pod['subdomain']}:{container['ports'][0]['containerPort']}"
    )
    assert problem(of_torchrun(words)) is None
    check_pod(pod)


def test_a_train_job_refers_to_its_runtime() -> None:
    runtime, job = documents("trainjob.yaml")
    assert {runtime["apiVersion"], job["apiVersion"]} == {"trainer.kubeflow.org/v1alpha1"}
    reference, trainer = job["spec"]["runtimeRef"], job["spec"]["trainer"]
    assert (reference["kind"], reference["name"]) == (runtime["kind"], runtime["metadata"]["name"])
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = replicated["template"]["metadata"]["labels"]
    assert replicated["name"] == "node" and labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert problem(of_torchrun(trainer["command"] + trainer["args"])) is None
    check_pod(replicated["template"]["spec"]["template"]["spec"])


def check_pod(pod: Any) -> None:
    """Not root, time to save, every mount of a volume, and the user of the image."""
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and not container["securityContext"]["allowPrivilegeEscalation"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["workingDir"] in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert pod["terminationGracePeriodSeconds"] > 30  # after which torchrun kills
    user = pod["securityContext"]["runAsUser"]
    assert f"USER {user}\n" in (DEPLOY / "Dockerfile").read_text() and container["image"] == "regard:train"


def test_an_image_serves_as_no_root_and_says_whether_it_is_ready() -> None:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    build, train, serve = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert [each.split()[2] for each in (build, train, serve)] == ["build", "train", "serve"]
    assert "ARG TORCH=cpu" in train and re.search(r"^USER \d+$", train, re.MULTILINE) and "USER" not in serve
    entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", serve, re.MULTILINE)[0])
    assert problem(Shown((*entry, "runs/first"), True)) is None
    assert f"EXPOSE {entry[entry.index('--port') + 1]}\n" in serve
    check = json.loads(re.findall(r"^HEALTHCHECK .*CMD (.*)$", serve, re.MULTILINE)[0])
    compile(check[-1], "HEALTHCHECK", "exec")
    route = re.findall(r"127\.0\.0\.1:5000(/\w+)", check[-1])[0]
    assert f'"{route}"' in (ROOT / "regard" / "server" / "api" / "api_v1.py").read_text()


def test_what_the_build_needs_is_sent_to_it() -> None:
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    needed = {"regard", "web", "pyproject.toml", "constraints.txt", "hatch_build.py", "README.md", "LICENSE"}
    assert needed <= kept and all((ROOT / name).exists() for name in kept)


def test_the_options_of_a_file_exist() -> None:
    assert problem(Shown(("regard", "serve", "--config", str(SERVE_OPTIONS)), True)) is None
    wrong = Shown(("regard", "serve", "--config", str(DEPLOY / "trainjob.yaml")), True)
    assert "cannot read the config" in str(problem(wrong))


def test_a_deployment_is_probed_drained_and_scaled() -> None:
    deployment, service, budget, scaler = documents("serve.yaml")
    name, spec = deployment["metadata"]["name"], deployment["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    for selector in (
        spec["selector"]["matchLabels"],
        service["spec"]["selector"],
        budget["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    assert service["metadata"]["name"] == scaler["spec"]["scaleTargetRef"]["name"] == name
    (container,) = pod["containers"]
    words = [*entry_point(), *container["args"]]
    assert problem(Shown(tuple(words), True)) is None
    seconds = {option: float(words[words.index(option) + 1]) for option in ("--drain", "--timeout")}
    assert pod["terminationGracePeriodSeconds"] >= sum(seconds.values()) + 10
    api = (ROOT / "regard" / "server" / "api" / "api_v1.py").read_text()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert f'"{container[probe]["httpGet"]["path"]}"' in api
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", "a server that is not ready must not be killed"
    (port,) = container["ports"]
    assert str(port["containerPort"]) == words[words.index("--port") + 1]
    security = container["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]} and not security["allowPrivilegeEscalation"]
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}, "workers share files there"
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert not pod["enableServiceLinks"] and budget["spec"]["minAvailable"] < scaler["spec"]["minReplicas"]
    (metric,) = scaler["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in exposed()


def test_a_composition_names_files_and_options_that_exist() -> None:
    (composed,) = documents("compose.yaml")
    services = composed["services"]
    assert problem(Shown((*entry_point(), *services["regard"]["command"]), True)) is None
    for service in services.values():
        for mount in service.get("volumes", ()):
            path = (DEPLOY / mount.partition(":")[0]).resolve()
            assert path.exists() or path == ROOT / "runs"
    (configured,) = documents("prometheus.yaml")
    assert all((DEPLOY / rules).exists() for rules in configured["rule_files"])
    target = configured["scrape_configs"][0]["static_configs"][0]["targets"][0]
    assert target.partition(":")[0] in services and f":{target.partition(':')[2]}:" in f"{services['regard']['ports']}:"


def test_dashboard_and_alerts_use_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    (rules,) = documents("alerts.yaml")
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    named = {name for expression in [*shown, *alerts] for name in re.findall(r"\b(?:regard|process)_\w+", expression)}
    assert named and named <= exposed(), named - exposed()
    assert {name for name in exposed() if name.endswith("_total") and name.startswith("regard")} <= named
    for expression in [*shown, *alerts]:
        assert all(expression.count(pair[0]) == expression.count(pair[1]) for pair in ("()", "{}", "[]")), expression
    reasons = {reason.replace(" ", "_") for reason in get_args(ErrorReason)}
    for expression in alerts:
        for matched in re.findall(r'reason=~?"([^"]+)"', expression):
            assert set(matched.split("|")) <= reasons


def entry_point() -> list[str]:
    """The words before the arguments of a container of the image."""
    text = (DEPLOY / "Dockerfile").read_text()
    return list(json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[-1]))


def exposed() -> set[str]:
    """The names of the samples of /metrics."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    families = list(ServerMetrics().registry.collect())
    return {
        family.name + ending for family in families for ending in endings[family.type]
    } | {sample.name for family in families for sample in family.samples}  # fmt: skip


def test_an_image_has_fixed_versions_and_a_bill_of_materials() -> None:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    commands = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    (torch,) = (command for command in commands if "download.pytorch.org" in command)
    assert "grep '^torch==' /constraints.txt" in torch
    assert len(re.findall(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)) == 1
    (package,) = (command for command in commands if "regard-*.whl" in command)
    assert "--constraint /constraints.txt" in package and "target=/constraints.txt" in package
    extras = re.findall(r"whl\)\[([\w,]+)\]", package)[0].split(",")
    assert set(extras) <= set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    (bill,) = re.findall(r"--output-file (\S+)", package)
    assert bill in (DEPLOY / "Dockerfile").read_text().partition("ARG PYTHON")[0], "the head of the file names it"
    assert all(f"FROM {stage}" in text for stage in ("python:${PYTHON} AS build", "python:${PYTHON} AS train"))
