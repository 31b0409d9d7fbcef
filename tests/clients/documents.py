"""Runs what the documents show: every `$ command` of their console blocks, in order, in one shell's working
folder, and checks that each line that a document shows begins as one that was printed begins.

Wants ALLOT, KUBECTL, KUBECONFIG and the path of the checkout as its argument; with `beside` behind it the document
about `allot controllers` and that about the catalog, and a KUBECONFIG of the API server that they stand beside.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
here = pathlib.Path.cwd()
tools = here / "bin"
tools.mkdir()
(tools / "allot").symlink_to(os.environ["ALLOT"])
(tools / "kubectl").symlink_to(os.environ["KUBECTL"])
for folder in ("examples", "deploy"):
    (here / folder).symlink_to(root / folder)
(here / "platform.kubeconfig").symlink_to(os.environ["KUBECONFIG"])
env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(here / "platform.kubeconfig")}

DOCUMENTS = {"README.md": 12, "docs/requests.md": 20, "docs/catalog.md": 25}
# What has to run already where a document begins.
BEFORE = {}
if sys.argv[2:] == ["beside"]:
    DOCUMENTS = {"docs/controllers.md": 15, "docs/catalog.md": 25}
    # By an identity of its own: what its own identity writes is held to no rules, and the document shows rules.
    BEFORE["docs/catalog.md"] = """
        set -e
        kubectl config view --raw --flatten > own.kubeconfig
        token=$(kubectl create token allot-controllers -n allot-system)
        kubectl --kubeconfig own.kubeconfig config set-credentials own --token "$token" > /dev/null
        kubectl --kubeconfig own.kubeconfig config set-context --current --user own > /dev/null
        KUBECONFIG=own.kubeconfig allot controllers --data-dir clusters --listen 127.0.0.1:0 --pid-file again.pid > again.log 2>&1 &
        until grep -q '^acting; ' again.log; do sleep 0.1; done
    """


def run(document):
    """Runs one document; how many commands that were."""
    ran = 0
    for block in re.findall(r"```console\n(.*?)```", (root / document).read_text(), re.S):
        ran += run_block(document, block)
    return ran


def run_block(document, block):
    ran = 0
    for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, *shown = step.rstrip("\n").split("\n")
        if command.startswith("export "):
            continue
        done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=60)
        printed = (done.stdout + done.stderr).splitlines()
        if done.returncode != 0 and not any(re.match(r"(?i)error", text) for text in shown):
            sys.exit(f"{document}: $ {command}\nended with {done.returncode}, and no error is shown:\n" + "\n".join(printed))
        # Dots stand for what is left out.
        for line in (line for line in shown if line.strip() not in ("", "...")):
            # What is generated (names, times, ages) stands behind the first word or two.
            words = re.split(r"\s+", line.strip())[: 1 if "-" in line.split()[0] else 2]
            start = re.escape(words[0]) + "".join(r"\s+" + (re.escape(w) if not re.search(r"\d", w) else r"\S+") for w in words[1:])
            start = re.sub(r"(workload|mcp|preview)\\-[a-z0-9]{8}", r"\1-[a-z0-9]{8}", start)
            if not any(re.match(start, text.strip()) for text in printed):
                sys.exit(f"{document}: $ {command}\nshows:   {line}\nprinted: " + "\n         ".join(printed))
        ran += 1
    return ran


try:
    for document, least in DOCUMENTS.items():
        if document in BEFORE:
            subprocess.run(["bash", "-c", BEFORE[document]], env=env, check=True, timeout=60)
        ran = run(document)
        assert ran >= least, f"{document}: only {ran} commands were found"
        print(f"{document}: all checks passed ({ran} commands)")
finally:
    # What a document leaves running.
    for file in here.glob("*.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)
