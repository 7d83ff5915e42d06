#!/usr/bin/env python3
"""Makes the skeletons of the exercises from the lessons' own sources.

  make_exercises.py           writes lessons/*/exercise/*.cpp anew; what a learner wrote there is lost
  make_exercises.py --check   fails if one of them is not what this script would write

An exercise has the lesson's file with the bodies of some functions taken out. In their place stand a
hint and a KV_TODO. The tests are the lesson's own."""
import argparse
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]

# lesson -> file -> the functions to write: how their first line begins, and a hint.
EXERCISES = {
    "01_no_cache": {
        "causal_attention.cpp": [
            ("void attend_rows(",
             "One Query for each row and each query head that shares this KV head: where its q is, where its output goes, "
             "and how many keys it sees. (Row r of a sequence that begins at row f sees r - f + 1.) Then the sequence's K "
             "and V of this head, as KvRows, and one call of attend() for all of them. The scale is 1 / sqrt(head_dim)."),
        ],
    },
    "02_flat_cache": {
        "append_kv.cpp": [
            ("void append_kv_cpu(",
             "Row r goes to slot slab_begin[row_slab[r]] + row_position[r] of the cache: row_elements floats of K, as many "
             "of V. Slots can be more than an int counts."),
        ],
        "reservation_arena.cpp": [
            ("std::optional<SlotRange> ReservationArena::reserve(",
             "The first hole that is large enough gives its front. None: no value. A size below 1 is "
             "std::invalid_argument."),
            ("void ReservationArena::release(",
             "Only a range that was reserved, just as it was, can be released: anything else is std::invalid_argument "
             "and changes nothing."),
            ("std::vector<SlotRange> ReservationArena::holes(",
             "What lies between the reserved ranges, before the first and behind the last. reserved_ is in order."),
        ],
    },
    "03_paged_blocks": {
        "block_pool.cpp": [
            ("std::optional<int32_t> BlockPool::allocate(",
             "free_ is a stack, its top at the back. The block that was freed last comes first. Two things change."),
            ("bool BlockPool::allocate(",
             "All or nothing. What may throw (a vector that grows) comes before the first block is taken."),
            ("void BlockPool::free(",
             "Check before you change: freeing a free block is std::logic_error, and names it."),
        ],
        "block_table.cpp": [
            ("Place BlockTable::place(",
             "Logical block token / block_size, offset token % block_size. A token without a slot is std::out_of_range."),
            ("int64_t BlockTable::slot(",
             "block_id * block_size + offset, in 64 bits from the first operation on."),
            ("int BlockTable::last_block_fill(",
             "0 for an empty table, else 1 .. block_size. A full last block has block_size, not 0."),
            ("int BlockTable::blocks_to_extend(",
             "blocks_for() of the new length less the blocks that are there. A negative number of tokens, and a length "
             "that no int can hold, are std::invalid_argument."),
            ("void BlockTable::extend(",
             "Just as many new blocks as blocks_to_extend() says, else std::invalid_argument and no change."),
        ],
    },
    "04_paged_attention": {
        "paged_attention.cpp": [
            ("Query query_of(",
             "Rows are [rows, num_heads, head_dim]. The sequence's last row is its last token (seq_len - 1), the row "
             "before it the token before. A query at position p sees p + 1 keys."),
            ("void find_paged_rows(",
             "For tokens first .. first + num_tokens - 1 the addresses of their K and V for this head. The table gives "
             "the block of token / block_size; lesson03::k_row and v_row give a slot's row, which holds all KV heads. "
             "Look into the table once for each block, not once for each token."),
        ],
    },
    "05_refcount_cow": {
        "block_pool.cpp": [
            ("void BlockPool::add_ref(",
             "One owner more of a used block. num_shared_ counts blocks with two owners or more, num_references_ all "
             "references."),
            ("int BlockPool::release(",
             "One owner less; with the last one the block is free. Returns how many are left."),
        ],
        "block_manager.cpp": [
            ("int BlockManager::fork(",
             "The table is copied, no block is. Each block has one owner more."),
            ("bool BlockManager::append(",
             "plan() says what to do and changes nothing: for each sequence the new blocks, and the logical index of a "
             "shared tail that it has to copy first (-1: none). The order: allocate everything or say no; tell copy_ all "
             "pairs in one call; release the shares and repoint; grow. If copy_ throws, give the blocks back, and "
             "nothing has changed."),
            ("bool BlockManager::make_last_block_writable(",
             "The same for one sequence, whatever the fill of its last block: nothing to do for the only owner, false "
             "if no block is free."),
            ("void BlockManager::free_sequence(",
             "A reference less for every block, the last one first. Then the table goes."),
        ],
    },
    "06_prefix_hashing": {
        "prefix_index.cpp": [
            ("bool PrefixIndex::equal(",
             "kHashOnly trusts the hash. kExact wants the matched parent and the tokens."),
            ("std::optional<PrefixIndex::Match> PrefixIndex::find(",
             "Every block under this hash is a candidate. Count those that are refused."),
            ("PrefixId PrefixIndex::publish(",
             "If a block with the same content is there, the prefix has its number; else a new one. A block that is in "
             "the index already is std::logic_error. Asking yourself with find() must not count as refused."),
            ("bool PrefixIndex::forget(",
             "Take this block out, and not another one under the same hash."),
        ],
        "block_manager.cpp": [
            ("BlockManager::Start BlockManager::start(",
             "Full block by full block: hash it behind the last one, ask the index with the parent that was matched, "
             "take() the block at once, go on. The first miss ends it, and the last token is never cached. Count what was "
             "asked and found. Then the sequence has its number."),
            ("void BlockManager::publish(",
             "The blocks from num_published on that are full by now, each behind the hash and the prefix of the one "
             "before it. Fewer tokens than slots: std::invalid_argument."),
        ],
    },
    "07_lru_eviction": {
        "free_block_queue.cpp": [
            ("KvBlock& FreeBlockQueue::popleft(",
             "The one behind front_, taken out. An empty queue is std::logic_error."),
            ("void FreeBlockQueue::remove(",
             "Its two neighbours are tied to each other, its own links are null again. No search, no allocation. A block "
             "that is not in the queue is std::logic_error."),
            ("void FreeBlockQueue::insert_before(",
             "Four links change. A block that is in the queue already is std::logic_error."),
        ],
        "block_pool.cpp": [
            ("bool BlockPool::get_new_blocks(",
             "All or nothing. Each block is the head of the queue, or what choose_victim_ picks from it (then you take "
             "it out). It loses its content (evict), has one reference, and was used now. expect_events() for as many "
             "events as there are blocks comes first; ++clock_ once for each call."),
            ("void BlockPool::evict(",
             "Nothing to do for a block that is not cached. Else unhook it from its bucket's chain, clear is_cached, "
             "and keep the books: num_cached_, metrics_ (num_evicted, sum_residency since cached_at, sum_idle since "
             "last_used_at, num_evicted_unused), and tell(kRemoved)."),
            ("void BlockPool::touch(",
             "First find_block() for all ids, which throws for the null block and unknown ones. Then a free block "
             "leaves the queue (num_revived), and every block has one reference and one hit more, and was used now."),
        ],
    },
    "08_scheduler": {
        "scheduler.cpp": [
            ("int Scheduler::chunk_of(",
             "What is known less what is computed; at most the budget; at most max_chunk, unless that is 0."),
            ("void Scheduler::schedule_running(",
             "In the order in which they started, while there is budget: slots for the next chunk. If the manager has no "
             "room, preempt the least important running request and ask again. The victim may have its chunk already: "
             "take it back, and give its tokens back to the budget. The victim may be the request itself. Preempting "
             "changes running_, so go through a copy (order_)."),
            ("void Scheduler::schedule_waiting(",
             "The first of the queue starts while there is budget and max_running allows: what the cache has, a chunk "
             "of the rest, slots for both. No room ends it: nobody overtakes. num_computed and num_cached begin with "
             "what was found."),
            ("void Scheduler::preempt(",
             "Its blocks are free, it leaves running_, has nothing computed, is counted, and waits."),
        ],
    },
}


def taken_out(source, begin, hint, name):
    """The source without the body of the function whose first line starts with `begin`."""
    at = source.index("\n" + begin) + 1
    opened = re.compile(r"\{\n", re.S).search(source, at).end()
    closed = source.index("\n}\n", opened) + 1
    lines = textwrap.wrap(hint, width=95)
    body = "".join(f"  // {line}\n" for line in lines) + f'  KV_TODO("{name}");\n'
    return source[:opened] + body + source[closed:]


def name_of(begin):
    return re.search(r"([\w:]+)\($", begin).group(1)


def skeleton(lesson, file, functions):
    source = (ROOT / "lessons" / lesson / file).read_text(encoding="utf-8")
    for begin, hint in functions:
        source = taken_out(source, begin, hint, name_of(begin))
    header = re.search(r'^#include "(\w+\.h)"$', source, re.M).group(1)
    # Comments in front of the first include are about the lesson's version.
    source = source[re.search(r"^#include", source, re.M).start():]
    intro = (f"// Exercise of lesson {lesson[:2]}: write what is missing here, then `./course exercise {int(lesson[:2])}`.\n"
             f"// What each function promises stands in ../{header}. The lesson's version is ../{file}: try before\n"
             "// you look.\n\n")
    local = re.findall(r'^#include "([^"]+)"$', source, re.M)
    last = f'#include "{local[-1]}"\n'
    if len(local) == 1:  # the file's own header alone: ours follows the system's
        includes_end = [m.end() for m in re.finditer(r"^#include .*\n", source, re.M)][-1]
        source = source[:includes_end] + '\n#include "common/todo.h"\n' + source[includes_end:]
    else:
        source = source.replace(last, last + '#include "common/todo.h"\n')
    text = intro + source
    done = subprocess.run(["clang-format", f"--assume-filename={ROOT}/lessons/{lesson}/exercise/{file}"],
                          input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = 0
    for lesson, files in EXERCISES.items():
        for file, functions in files.items():
            path = ROOT / "lessons" / lesson / "exercise" / file
            text = skeleton(lesson, file, functions)
            if not options.check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(ROOT)}: {len(functions)} to write")
            elif not path.is_file() or path.read_text(encoding="utf-8") != text:
                print(f"{path.relative_to(ROOT)} is not what tools/make_exercises.py writes")
                stale += 1
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
