#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server starts with the arguments that the Deployment gives it, has the metrics that an autoscaler asks
for, and autoscaler and budget name its pods.

usage: check_kustomize.py BINARY TARGET.gguf <RENDERED.yaml     (needs PyYAML)

Paths and addresses of a pod become those of this machine, ports become free ones. All else stays.
"""
import signal
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import yaml

OF_THE_POD = ("/models/target.gguf", "/run/secrets/foretoken/token", "$(CPUS)", "$(POD_IP):9411")


def arguments(documents):
    (pod,) = [d["spec"]["template"]["spec"] for d in documents if d["kind"] == "Deployment"]
    (container,) = pod["containers"]
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    if ports != {"grpc": 7411, "metrics": 9411}:
        sys.exit(f"check_kustomize: the container's ports are {ports}")
    return container["args"]


def check_names(documents):
    """Returns the metrics of the autoscalers."""
    (deployment,) = [d for d in documents if d["kind"] == "Deployment"]
    metrics = []
    for d in documents:
        spec = d.get("spec", {})
        if d["kind"] == "PodDisruptionBudget" and spec["selector"] != deployment["spec"]["selector"]:
            sys.exit(f"check_kustomize: the budget is for other pods: {spec}")
        if d["kind"] == "HorizontalPodAutoscaler":
            if spec["scaleTargetRef"]["name"] != deployment["metadata"]["name"]:
                sys.exit(f"check_kustomize: the autoscaler is for another Deployment: {spec}")
            metrics += [m["pods"]["metric"]["name"] for m in spec["metrics"]]
    return metrics


def check_page(said, metrics):
    (port,) = re.findall(r"metrics host=\S+ port=(\d+)", said)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        page = answer.read().decode()
    for name in metrics:
        if not re.search(rf"^# TYPE {re.escape(name)} gauge$", page, re.M):
            sys.exit(f"check_kustomize: the server has no gauge {name}")


def main():
    binary, target = sys.argv[1:3]
    documents = list(yaml.safe_load_all(sys.stdin))
    metrics = check_names(documents)
    args = arguments(documents)
    if any("--picker-metrics=vllm" in arg for arg in args):
        metrics.append("vllm:num_requests_waiting")
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text("0123456789abcdef\n")
        for old, new in zip(OF_THE_POD, (target, str(token), "1", "127.0.0.1:0")):
            if sum(old in arg for arg in args) != 1:
                sys.exit(f"check_kustomize: the arguments have no '{old}': {args}")
            args = [arg.replace(old, new) for arg in args]
        server = subprocess.Popen([binary, *args, "--port=0"], stderr=subprocess.PIPE, text=True)
        said = []
        for line in server.stderr:  # until it serves, or ends
            said.append(line)
            if "metrics host=" in line:
                check_page(line, metrics)
                break
        server.send_signal(signal.SIGTERM)
        said.append(server.communicate()[1])
    text = "".join(said)
    if server.returncode != 0 or "auth=token" not in text or "metrics host=" not in text:
        sys.exit(f"check_kustomize: {args}:\n{text}")


if __name__ == "__main__":
    main()
