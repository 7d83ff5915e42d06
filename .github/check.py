#!/usr/bin/env python3
"""Reads the workflows as GitHub will, before it does: YAML without a key that is there twice, the keys that a job and a
step may have, `needs` that name a job, and expressions that name an earlier step. And the devcontainer and the
editor's tasks, which are JSON. Says what is wrong, one line each."""
import json
import pathlib
import re
import sys

JOB = set("name needs permissions runs-on environment concurrency outputs env defaults if steps timeout-minutes strategy continue-on-error container services uses with secrets".split())
STEP = set("id if name uses run working-directory shell with env continue-on-error timeout-minutes".split())


def faults(flow):
    if set(flow) - {"name", "run-name", "on", True, "permissions", "env", "defaults", "concurrency", "jobs"}:  # YAML 1.1 reads on as true
        yield f"unknown keys: {sorted(map(str, flow))}"
    for name, job in flow["jobs"].items():
        needs = job.get("needs", [])
        for need in [needs] if isinstance(needs, str) else needs:
            if need not in flow["jobs"]:
                yield f"{name} needs {need}, which is no job"
        if set(job) - JOB or ("uses" in job) == ("steps" in job) or "steps" in job and "runs-on" not in job:
            yield f"{name}: wrong or missing keys: {sorted(job)}"
        ids = set()
        for n, step in enumerate(job.get("steps", []), 1):
            if set(step) - STEP or ("run" in step) == ("uses" in step):
                yield f"{name}, step {n}: wrong or missing keys: {sorted(step)}"
            if "uses" in step and not re.fullmatch(r"[\w.-]+/[\w./-]+@[\w.-]+|\./.+|docker://.+", step["uses"]):
                yield f"{name}, step {n}: uses {step['uses']}: wanted owner/name@version"
            for used in re.findall(r"\$\{\{[^}]*\bsteps\.([\w-]+)\.", json.dumps(step)):
                if used not in ids:
                    yield f"{name}, step {n}: no earlier step has the id {used}"
            ids.add(step.get("id"))
        for used in re.findall(r"\$\{\{[^}]*\bsteps\.([\w-]+)\.", json.dumps(job.get("environment", ""))):
            if used not in ids:
                yield f"{name}: no step has the id {used}"


def main():
    root = pathlib.Path(__file__).resolve().parents[1]
    wrong = []
    for file in (".vscode/tasks.json", ".vscode/extensions.json", ".devcontainer/devcontainer.json"):
        try:
            json.loads((root / file).read_text(encoding="utf-8"))
        except ValueError as error:
            wrong.append(f"{file}: {error}")
    try:
        import yaml
    except ImportError:
        print("the workflows were not read: no yaml for Python (Debian: python3-yaml)")
        yaml = None

    class Once(yaml.SafeLoader if yaml else object):
        def construct_mapping(self, node, deep=False):
            keys = [key.value for key, _ in node.value]
            if len(keys) != len(set(keys)):
                raise yaml.YAMLError(f"line {node.start_mark.line + 1}: a key is there twice: {keys}")
            return super().construct_mapping(node, deep)

    for file in sorted((root / ".github/workflows").glob("*.yml")) if yaml else []:
        try:
            wrong += [f"{file.name}: {fault}" for fault in faults(yaml.load(file.read_text(encoding="utf-8"), Once))]
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            wrong.append(f"{file.name}: {error}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
