#!/usr/bin/env python3
"""Three servers over one Redis behind the router, beside one server of three times the memory: hit rates and answers.
./course route --test builds what is needed and calls it.

    three_servers.py BIN

The same conversations go to each setting by ./course load. All answers must have one digest, and the three servers over
the store must find about what the large one finds, or more: what is found depends on when requests come. At the end one
of the three is killed in the middle: only requests whose answer had begun there may fail, and the turns after them.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ADDRESS = r"http://[\d.]+:\d+"
NUM_BLOCKS = 128  # of each server's pool
REQUESTS = ["--num-requests", 256, "--concurrency", 8, "--seed", 0]


class Process:
    """A program that runs until it is ended."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def printed(self, pattern):
        """Waits for a line with the pattern."""
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found[0]
        sys.exit(f"{self.process.args[0]} ended and printed no {pattern}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.process.stdout.close()


class Setting:
    """Servers, and the router before them if they are several."""

    def __init__(self, programs, num_servers, num_blocks, store=None):
        self.programs, self.processes = programs, []
        words = ["--port", 0, "--num-blocks", num_blocks, "--enable-prompt-tokens-details"]
        if store:
            words += ["--store", store, "--load", "always"]
        self.servers = [self.start("serve", *words) for _ in range(num_servers)]
        urls = [server.printed(ADDRESS) for server in self.servers]
        self.url = urls[0]
        if num_servers > 1:
            more = ["--store-seconds-per-block", 0.001] if store else []
            router = self.start("route", "--port", 0, *[word for url in urls for word in ("--server", url)], *more)
            self.url = router.printed(ADDRESS)
            for _ in urls:
                router.printed(": up")

    def start(self, program, *words):
        self.processes.append(Process(os.path.join(self.programs, program), *words))
        return self.processes[-1]

    def load(self):
        """./course load, begun; `numbers` waits for it."""
        words = [os.path.join(self.programs, "load"), "--url", self.url, "--json", "-", *REQUESTS]
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.end()


def numbers(load):
    text, _ = load.communicate(timeout=600)
    found = json.loads(text or "null")
    if not found or load.returncode != (found["whole"] < found["requests"]):
        sys.exit(f"load ended with {load.returncode}")
    return found


def show(name, found):
    hits = 100 * found["cached_tokens"] / max(found["prompt_tokens"], 1)
    print(f"{name:<34}  {hits:5.1f} %  {found['first_token_ms']['p50']:8.1f} ms  {found['tokens_per_second']:9.0f}  "
          f"{found['whole']:>4} of {found['requests']}  {found['digest']}", flush=True)


def main():
    if len(sys.argv) != 2:
        print(f"error: found '{' '.join(sys.argv[1:])}', wanted the folder of serve, route and load, and nothing else", file=sys.stderr)
        return 2
    programs = sys.argv[1]
    if not shutil.which("redis-server"):
        print("redis-server is missing (package redis-server)")
        return 77
    blocks = NUM_BLOCKS

    print(f"{'':<34}  {'found':>7}  {'first token':>11}  {'tokens/s':>9}  {'whole':>11}  digest of the answers")
    digests = []
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "kv.sock")

        def run(name, *setting):
            with Setting(programs, *setting) as servers:
                began = time.monotonic()
                found = numbers(servers.load())
            show(name, found)
            digests.append(found["digest"])
            return found, time.monotonic() - began

        small, _ = run(f"one server of {blocks} blocks", 1, blocks)
        large, _ = run(f"one server of {3 * blocks} blocks", 1, 3 * blocks)
        run(f"three of {blocks} blocks", 3, blocks)
        redis = Process("redis-server", "--port", 0, "--unixsocket", socket, "--save", "", "--appendonly", "no")
        try:
            redis.printed("ready to accept connections|Ready to accept connections")
            shared, seconds = run(f"three of {blocks} blocks over a store", 3, blocks, "unix:" + socket)
            subprocess.run(["redis-cli", "-s", socket, "flushall"], check=True, stdout=subprocess.DEVNULL)
            with Setting(programs, 3, blocks, "unix:" + socket) as servers:
                load = servers.load()
                time.sleep(seconds / 2)
                servers.servers[0].kill()
                found = numbers(load)
                show("the same, one killed in the middle", found)
                again = numbers(servers.load())
                show("the two that are left, asked again", again)
                digests.append(again["digest"])
        finally:
            redis.end()
    for kind, count in found["errors"].items():
        print(f"failed when one was killed: {count} x {kind}")
    wrong = []
    if len(set(digests)) != 1:
        wrong.append(f"answers differ: {digests}")
    if not max(small["cached_tokens"], 0.95 * large["cached_tokens"]) < shared["cached_tokens"]:
        wrong.append("the three over the store found less than the small server, or 5 % less than the large one")
    if others := set(found["errors"]) - {"error in a stream", "stream without its end", "not sent"}:
        wrong.append(f"requests failed that had not begun: {others}")
    if found["equal_requests"]["equal"] != found["equal_requests"]["compared"]:
        wrong.append(f"answers differ when one is killed: {found['equal_requests']}")
    if again["whole"] != again["requests"]:
        wrong.append(f"the two that are left failed: {again['errors']}")
    for line in wrong:
        print("! " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
