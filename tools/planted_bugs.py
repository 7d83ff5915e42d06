#!/usr/bin/env python3
"""Puts one bug at a time into a copy of the course's real code, and sees a test find it.

    ./course planted                     all bugs, as a table
    python3 tools/planted_bugs.py --bin BUILD_FOLDER [--only TEXT] [--jobs N] [--show]
    python3 tools/planted_bugs.py --check           only: does every bug still have its place?

A bug is a piece of a source file that is replaced. The file is compiled alone and linked in front of
the lesson's library with the lesson's own tests; nothing in the working tree changes. A bug counts as
found if a test fails, or does not end. Exit code 1 if one is not found.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INDEX, MANAGER6 = "06_prefix_hashing/prefix_index.cpp", "06_prefix_hashing/block_manager.cpp"
HASH6 = "06_prefix_hashing/block_hash.cpp"
POOL, QUEUE = "07_lru_eviction/block_pool.cpp", "07_lru_eviction/free_block_queue.cpp"
MANAGER7, KEY = "07_lru_eviction/block_manager.cpp", "07_lru_eviction/block_key.cpp"
MANAGER8, SCHEDULER = "08_scheduler/kv_cache_manager.cpp", "08_scheduler/scheduler.cpp"

# (file, what is wrong then, the code, what stands there instead)
BUGS = [
    (HASH6, "the parent's hash is left out: no chain", "parent = hasher(parent,", "parent = hasher({},"),
    (INDEX, "a hit is believed without comparing tokens",
     "std::equal(content.tokens.begin(), content.tokens.end(), tokens.begin(), tokens.end());",
     "(tokens.size() > 0);"),
    (INDEX, "a hit is believed without comparing the parent",
     "return content.parent == parent &&", "return"),
    (INDEX, "equal content gets a new prefix number", "same ? same->prefix : next_prefix_++", "next_prefix_++"),
    (INDEX, "forgetting a block forgets another one of its hash",
     "by_hash_.erase(std::find_if(begin, end, [&](const auto& e) { return e.second == block_id; }));",
     "by_hash_.erase(begin); static_cast<void>(end);"),
    (MANAGER6, "the last token may be found, too", "end < tokens.size()", "end <= tokens.size()"),
    (MANAGER6, "a taken block keeps its old name in the index", "index_.forget(fresh.back());", ""),
    (MANAGER6, "the tail of a sequence is freed before its head, and the head taken first",
     "for (const int32_t id : find(seq).table.block_ids()) pool_.release(id);",
     "const auto ids = find(seq).table.block_ids();\n"
     "  for (auto id = ids.rbegin(); id != ids.rend(); ++id) pool_.release(*id);"),
    (MANAGER6, "a block that is not full is published", "const int num_full = table.num_tokens() / block_size_;",
     "const int num_full = table.num_blocks();"),

    (QUEUE, "a block removed from the middle stays its successor's neighbour",
     "block.next_free->prev_free = block.prev_free;", ""),
    (QUEUE, "append puts a block in front", "{ insert_before(back_, block); }",
     "{ insert_before(*front_.next_free, block); }"),
    (QUEUE, "a removed block still says that it is in the queue",
     "block.prev_free = block.next_free = nullptr;", ""),
    (QUEUE, "the count forgets removals", "  --size_;\n", ""),

    (POOL, "an evicted block can still be found", "  *link = std::exchange(block.next_in_bucket, nullptr);",
     "  block.next_in_bucket = nullptr;"),
    (POOL, "eviction cuts off the rest of the hash's chain",
     "  *link = std::exchange(block.next_in_bucket, nullptr);",
     "  *link = block.next_in_bucket = nullptr;"),
    (POOL, "a taken block keeps what it held", "    evict(block);\n    block.ref_cnt = 1;", "    block.ref_cnt = 1;"),
    (POOL, "a revived block stays in the queue", "      queue_.remove(block);  // from wherever it is\n", ""),
    (POOL, "a hit is not counted as a reference", "    ++block.ref_cnt;\n    ++block.num_hits;", "    ++block.num_hits;"),
    (POOL, "freed content goes to the front: the most recent is lost first",
     "      queue_.append(block);\n    }\n  }\n}", "      queue_.prepend(block);\n    }\n  }\n}"),
    (POOL, "unhashed blocks wait like all others", "if (order_ == FreeOrder::kUnhashedFirst && !block.is_cached)",
     "if (false)"),
    (POOL, "half of a refused free has happened",
     "    for (size_t i = 0; i < dropped; ++i) ++at(ids[i]).ref_cnt;\n", ""),
    (POOL, "a shared block goes to the queue at the first free",
     "if (block.ref_cnt > 0 || FreeBlockQueue::contains(block)) continue;",
     "if (FreeBlockQueue::contains(block)) continue;"),
    (POOL, "tokens are not compared", "std::equal(held.begin(), held.end(), tokens.begin(), tokens.end())",
     "held.size() == tokens.size()"),
    (POOL, "the parent is not compared", "if (content.parent == parent.value_or(kNoPrefix) && content",
     "if (content"),
    (POOL, "extra keys are not compared", "content.extra_keys == extra_keys &&", ""),
    (POOL, "only the first candidate of a hash is looked at", "    ++num_refused_;\n  }\n", "    ++num_refused_;\n    break;\n  }\n"),
    (POOL, "a reset while blocks are in use is carried out", "  if (num_used() > 0) return false;\n", ""),
    (POOL, "a reset leaves the hash table as it was", "  std::fill(buckets_.begin(), buckets_.end(), nullptr);\n", ""),
    (POOL, "one block more than is free is given", "  if (ids.size() > queue_.size()) return false;", ""),
    (KEY, "the kind of an extra key is left out", "    add(static_cast<uint64_t>(key.kind));\n", ""),
    (KEY, "the length of an extra key is left out", "    add(key.value.size());\n", ""),
    (MANAGER7, "hits on free blocks are not counted as taken", "needed + revived > pool_.num_free()",
     "needed > pool_.num_free()"),
    (MANAGER7, "the head of a sequence is freed before its tail",
     "freed_.assign(ids.rbegin(), ids.rend());", "freed_.assign(ids.begin(), ids.end());"),
    (MANAGER7, "some of an extension happens although not all fits",
     "  if (needed > pool_.num_free()) return false;\n  std::vector", "  std::vector"),

    (MANAGER8, "hits are not pinned before other blocks are taken", "  pool_.touch(computed.block_ids);\n", ""),
    (MANAGER8, "hits on free blocks are not counted as taken", "if (needed + revived > pool_.num_free()) return false;",
     "if (needed + 0 * revived > pool_.num_free()) return false;"),
    (MANAGER8, "the last token may be found, too", "end < tokens.size()", "end <= tokens.size()"),
    (MANAGER8, "blocks of a chunk that is not computed are published",
     "for (const int num_full = num_computed / block_size();", "for (const int num_full = held.table.num_tokens() / block_size();"),
    (MANAGER8, "the chain begins anew behind a hit", ".hash = computed.hash,", ".hash = {},"),
    (MANAGER8, "the head of a request is freed before its tail", "ids_.assign(ids.rbegin(), ids.rend());",
     "ids_.assign(ids.begin(), ids.end());"),
    (MANAGER8, "a freed request is still held", "  held_.erase(id);\n", ""),

    (SCHEDULER, "a victim stays in the batch", "        chunks_.erase(chunk);\n", ""),
    (SCHEDULER, "a victim's tokens stay in the budget's count", "        budget += chunk->num_tokens;\n", ""),
    (SCHEDULER, "the most important one is preempted", "return **std::ranges::max_element(", "return **std::ranges::min_element("),
    (SCHEDULER, "a victim keeps what it has computed", "  request.num_computed = 0;  // recomputation: what the cache still has is found again\n", ""),
    (SCHEDULER, "a victim waits behind everybody",
     "waiting_.insert(std::ranges::upper_bound(waiting_, &request, more_important), &request);",
     "static_cast<void>(more_important); waiting_.push_back(&request);"),
    (SCHEDULER, "others start in a pass that has preempted", "if (!preempted) schedule_waiting(budget);", "schedule_waiting(budget);"),
    (SCHEDULER, "a waiting request that does not fit is passed by",
     "if (!manager_->allocate_slots(request.id, tokens, computed, request.extra_keys)) return;",
     "if (!manager_->allocate_slots(request.id, tokens, computed, request.extra_keys)) { std::rotate(waiting_.begin(), waiting_.begin() + 1, waiting_.end()); return; }"),
    (SCHEDULER, "a hit's tokens are not counted as computed", "request.num_computed = request.num_cached = computed.num_tokens;",
     "request.num_cached = computed.num_tokens;"),
    (SCHEDULER, "what can never fit is taken", "if (needed > manager_->pool().num_blocks()) {", "if (needed > 1'000'000'000) {"),
    (SCHEDULER, "a request that fits exactly is refused", "if (needed > manager_->pool().num_blocks()) {", "if (needed >= manager_->pool().num_blocks()) {"),
    (SCHEDULER, "one that ends keeps its blocks", "  if (manager_->holds(id)) manager_->free(id);\n", ""),
    (SCHEDULER, "one that ends while it waits stays in the queue", "  std::erase(waiting_, &found->second);\n", ""),
    (SCHEDULER, "the budget does not count those who start",
     "    chunks_.push_back({.id = request.id, .num_tokens = tokens});\n    budget -= tokens;\n",
     "    chunks_.push_back({.id = request.id, .num_tokens = tokens});\n"),
    (SCHEDULER, "more run than may", "static_cast<int>(running_.size()) < options_.max_running", "true"),
    (SCHEDULER, "the limit of a chunk is forgotten", "if (options_.max_chunk > 0) tokens = std::min(tokens, options_.max_chunk);", ""),
    (SCHEDULER, "priority is forgotten", "options_.order == Order::kPriority &&", "false &&"),
    (SCHEDULER, "full blocks are never published",
     "    manager_->cache_blocks(chunk.id, request.tokens, request.num_computed);\n", ""),
    (SCHEDULER, "a cancelled request is updated",
     "    if (found == requests_.end() || found->second.state != RequestState::kRunning) continue;\n", ""),
    (SCHEDULER, "what a cancelled request computed is counted for its successor",
     " || found->second.state != RequestState::kRunning) continue;", ") continue;"),
    (SCHEDULER, "a token is wanted in the middle of a prompt", "r.num_computed == static_cast<int>(r.tokens.size())", "r.num_computed > 0"),
]

TESTS = {"06": ["06", "07"], "07": ["07", "08"], "08": ["08"]}
# Whole generations find most of these too, but take longer.
SHOW = False
FAST = {"KV_RANDOM_OPS": "100000", "KV_THREADS": "1"}


def source_of(bug):
    return ROOT / "lessons" / bug[0]


def check_places():
    wrong = []
    for bug in BUGS:
        count = source_of(bug).read_text().count(bug[2])
        if count != 1:
            wrong.append(f"lessons/{bug[0]}: '{bug[1]}': its code is there {count} times, wanted once:\n{bug[2]}")
    return wrong


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **options)


class Build:
    """The compile and link commands of a build folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compile = {pathlib.Path(c["file"]).resolve(): c["command"] for c in commands}
        self.link = {}

    def link_command(self, lesson):
        if lesson not in self.link:
            out = run(["ninja", "-C", str(self.folder), "-t", "commands", f"lesson{lesson}_test"]).stdout
            lines = [l for l in out.splitlines() if f"-o bin/lesson{lesson}_test" in l]
            if not lines:
                sys.exit(f"error: {self.folder} has no lesson{lesson}_test; build it first")
            command = lines[-1]
            command = command[command.index("&&") + 2 :] if command.startswith(":") else command
            self.link[lesson] = command.split("&&")[0].strip()
        return self.link[lesson]

    def compile_bug(self, bug, folder):
        source = source_of(bug)
        mutant = folder / source.name
        mutant.write_text(source.read_text().replace(bug[2], bug[3]))
        words = shlex.split(self.compile[source])
        words = [w for w in words if w not in ("-Werror", "ccache")]
        words = ["-O1" if w == "-O2" else w for w in words if not w.startswith("-g")]
        out = folder / "mutant.o"
        words[words.index("-o") + 1] = str(out)
        words[words.index("-c") + 1] = str(mutant)
        for option in ("-MF", "-MT"):
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
        words = [w for w in words if w != "-MD"] + ["-I", str(source.parent), "-w"]
        done = run(words, cwd=self.folder)
        return out, done.stderr if done.returncode else ""

    def link_bug(self, lesson, mutant, folder):
        words = shlex.split(self.link_command(lesson))
        program = folder / f"lesson{lesson}_test"
        words[words.index("-o") + 1] = str(program)
        first_library = next(i for i, w in enumerate(words) if w.endswith(".a"))
        words.insert(first_library, str(mutant))
        done = run(words, cwd=self.folder)
        return program, done.stderr if done.returncode else ""


def try_bug(build, bug):
    """(found by, seconds); found by is empty for a bug that no test sees."""
    begin = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mutant, error = build.compile_bug(bug, folder)
        if error:
            return f"ERROR: it does not compile: {error.strip().splitlines()[0]}", time.time() - begin
        for lesson in TESTS[bug[0][:2]]:
            program, error = build.link_bug(lesson, mutant, folder)
            if error:
                return f"ERROR: it does not link: {error.strip().splitlines()[0]}", time.time() - begin
            try:
                done = run([str(program), "--abort-after=1", "--no-colors"], timeout=120,
                           env={**os.environ, **FAST})
            except subprocess.TimeoutExpired:
                return f"lesson{lesson}_test does not end", time.time() - begin
            if done.returncode != 0:
                if SHOW:
                    print(done.stdout, file=sys.stderr)
                found = re.search(r"TEST CASE:\s+(.*)", done.stdout)
                what = found.group(1).strip() if found else "it ends with a signal"
                return f"lesson{lesson}: {what}", time.time() - begin
    return "", time.time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", metavar="FOLDER", help="a build folder with the lessons' tests")
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs whose file or text has this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check", action="store_true", help="only look whether every bug has its place")
    parser.add_argument("--show", action="store_true", help="what the failing test says, too")
    options = parser.parse_args()
    global SHOW
    SHOW = options.show
    wrong = check_places()
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if wrong:
        return 1
    if options.check:
        print(f"{len(BUGS)} bugs have their places")
        return 0
    if not options.bin:
        parser.error("--bin FOLDER is missing")
    build = Build(options.bin)
    bugs = [b for b in BUGS if options.only in b[0] + b[1]]
    for bug in bugs:  # before the threads
        for lesson in TESTS[bug[0][:2]]:
            build.link_command(lesson)
    missed = 0
    print(f"{'bug':<66}  {'in':<24}  found by")
    print("-" * 66 + "  " + "-" * 24 + "  " + "-" * 40)
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for bug, (found, _) in zip(bugs, pool.map(lambda b: try_bug(build, b), bugs)):
            if not found or found.startswith("ERROR"):
                missed += 1
            where = bug[0].split("_")[0] + "/" + bug[0].split("/")[1]
            print(f"{bug[1]:<66}  {where:<24}  {found or 'NOBODY'}", flush=True)
    print(f"\n{len(bugs) - missed} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
