#!/usr/bin/env python3
"""The server's KV events as libraries of others read them: python3-zmq and python3-msgpack.

    kv_events_client.py FOLDER_OF_PROGRAMS

Follows ./course serve --kv-events over sockets, as a client of vLLM would: the batches that are published, and those that it asks
for again. What this script adds up must be what ./course watch makes of the same frames. Exit code 77: a library is missing.
"""
import collections
import concurrent.futures
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

try:
    import msgpack
    import zmq
except ImportError as error:
    system = "/usr/bin/python3"  # has Debian's packages, even if `python3` is another one
    if os.path.exists(system) and not os.environ.get("KV_SYSTEM_PYTHON"):
        os.environ["KV_SYSTEM_PYTHON"] = "1"
        os.execv(system, [system, *sys.argv])
    print(f"SKIP: {error}; install python3-msgpack and python3-zmq")
    sys.exit(77)

END = b"\xff" * 8
FIELDS = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx"]


def ask(url, num_requests=200):
    """Conversations, four at a time: each request begins as one before it, and goes on."""
    def one(i):
        prompt = [1000 + i % 7] * 16 + [(i * k) % 900 + 5 for k in range(1, 20 + 8 * (i % 9))]
        body = json.dumps({"prompt": prompt, "max_tokens": 6}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})) as answer:
            answer.read()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(one, range(num_requests)))


def follow(endpoint, replay_endpoint, requests):
    """All payloads until the server has been silent for a while after the requests: half of them asked for again."""
    context = zmq.Context()
    live = context.socket(zmq.SUB)
    live.connect(endpoint)
    live.setsockopt(zmq.SUBSCRIBE, b"")
    time.sleep(1)  # until the server has seen it
    asking = threading.Thread(target=requests)
    asking.start()
    frames = {}
    while live.poll(20_000 if asking.is_alive() or not frames else 1_500):
        topic, number, payload = live.recv_multipart()
        assert topic == b"", topic
        number = int.from_bytes(number, "big")
        assert number == len(frames), f"found number {number}, wanted {len(frames)}"
        frames[number] = payload
        if number == 20:  # those so far come once more
            replay = context.socket(zmq.DEALER)
            replay.connect(replay_endpoint)
            replay.send_multipart([b"", struct.pack(">Q", 5)])
            again = []
            while replay.poll(20_000):
                _, number, payload = replay.recv_multipart()
                if number == END:
                    break
                again.append((int.from_bytes(number, "big"), payload))
            assert [n for n, _ in again[:16]] == list(range(5, 21)), again[:16]
            assert all(frames.get(n, payload) == payload for n, payload in again)
            replay.close(0)
    live.close(0)
    return [frames[n] for n in range(len(frames))]


def tally(payloads):
    """What is there after these batches, and how many blocks came and went."""
    standing, tokens = collections.Counter(), {}
    stored = removed = 0
    for payload in payloads:
        ts, events, rank = msgpack.unpackb(payload)
        assert abs(time.time() - ts) < 3600 and rank == 0, (ts, rank)
        for name, *values in events:
            if name == "BlockStored":
                event = dict(zip(FIELDS, values))
                assert event["medium"] == "GPU" and event["lora_id"] is None and event["group_idx"] == 0, event
                size, hashes = event["block_size"], event["block_hashes"]
                assert len(event["token_ids"]) == size * len(hashes), event
                parent = event["parent_block_hash"]
                assert parent is None or parent in standing, f"parent {parent} does not stand"
                for i, block in enumerate(hashes):
                    assert 0 <= block < 1 << 64
                    standing[block] += 1
                    tokens[block] = event["token_ids"][i * size : (i + 1) * size]
                stored += len(hashes)
            elif name == "BlockRemoved":
                for block in values[0]:
                    standing[block] -= 1
                    assert standing[block] >= 0, f"block {block} removed twice"
                    removed += 1
                    if standing[block] == 0:
                        del standing[block]
            else:
                assert name == "AllBlocksCleared", name
                standing.clear()
    assert all(tokens.values())
    return stored, removed, sum(standing.values())


def main(programs, folder):
    endpoint, replay_endpoint = f"ipc://{folder}/events", f"ipc://{folder}/replay"
    server = subprocess.Popen([f"{programs}/serve", "--port", "0", "--num-blocks", "40", "--kv-events", endpoint,
                               "--kv-events-replay", replay_endpoint], stdout=subprocess.PIPE, text=True)
    url = next(found[0] for line in server.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
    payloads = follow(endpoint, replay_endpoint, lambda: ask(url))
    server.terminate()
    server.wait(60)
    assert len(payloads) > 50, len(payloads)
    stored, removed, standing = tally(payloads)

    recording = f"{folder}/r"
    with open(recording, "wb") as out:
        out.write(b"page-by-page kv-events 1\n")
        for number, payload in enumerate(payloads):
            out.write(struct.pack(">QI", number, len(payload)) + payload)
    account = json.loads(subprocess.run([f"{programs}/watch", recording, "--json", "-"], capture_output=True, check=True).stdout)
    ours = account["blocks_stored"], account["blocks_evicted"], account["blocks_standing"]
    assert ours == (stored, removed, standing), f"watch says {ours}, wanted {(stored, removed, standing)}"
    assert account["complete"] and removed > 100
    print(f"{len(payloads)} batches: {stored} blocks stored, {removed} removed, {standing} stand; watch says the same")


with tempfile.TemporaryDirectory() as folder:
    main(sys.argv[1], folder)
