// A word leads to the glossary where it is the term, and not where it means something else.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { entries, finder } from '../.vitepress/glossary.mjs'
import { fieldWords } from '../.vitepress/search.mjs'
import { chapters, out, pages } from './site.mjs'

const lesson = (name) => `lessons/${name}/index.md`
const found = (page, text) => {
  const { terms, pattern } = finder(page)
  return [...text.matchAll(pattern)].map(([, ...groups]) => terms[groups.findIndex((group) => group !== undefined)].id)
}

test('a word that is no term here leads nowhere', () => {
  for (const [page, text, ...wrong] of [
    [lesson('02_flat_cache'), 'Each takes just what it will need, in one piece.', 'piece'],
    [lesson('02_flat_cache'), 'So equal slabs waste memory inside them.', 'waste'],
    [lesson('04_paged_attention'), 'Each of several CTAs stores its result.', 'store'],
    [lesson('05_refcount_cow'), 'First it plans, without changing anything.', 'plan'],
    [lesson('05_refcount_cow'), '64 blocks of 16 tokens are 512 MiB at the scale of Llama 2 7B.', 'scale'],
    [lesson('07_lru_eviction'), 'That is the best guess.', 'guess'],
    [lesson('08_scheduler'), 'A server promises more than it has, and needs a plan.', 'promise', 'plan'],
    [lesson('11_host_tier'), 'On an H200 in a PCIe 5.0 slot', 'slot'],
    [lesson('13_shared_tier'), 'A cluster of Redis servers divides the names.', 'cluster'],
    ['docs/gpu.md', 'CUDA calls it a thread block.', 'block'],
    ['docs/gpu.md', '"Load" and "store" mean this memory, and a warp stores its sum.', 'store'],
    ['docs/simt.md', 'Recordings are made from traces of loads and stores.', 'trace', 'store'],
    ['docs/equal-bits.md', 'A comment traces one case to a grid of 8 numbers.', 'trace', 'grid'],
    ['docs/vllm-map.md', 'rejection_greedy_sample_kernel (vllm/v1/sample/rejection_sampler.py)', 'sample'],
  ]) {
    assert.deepEqual(found(page, text).filter((id) => wrong.includes(id)), [], text)
  }
})

test('a term leads to its entry', () => {
  for (const [page, text, id] of [
    [lesson('03_paged_blocks'), 'The waste is that of sequences of all lengths.', 'waste'],
    [lesson('13_shared_tier'), 'The blocks lie in a store that both can reach.', 'store'],
    [lesson('14_fp8_pages'), 'What is its scale?', 'scale'],
    ['docs/gpu.md', 'The third is the cluster.', 'cluster'],
    ['docs/gpu.md', 'The host chooses the size of the grid.', 'grid'],
    ['readme.md', 'One promise holds throughout.', 'promise'],
    ['readme.md', 'Its block tables are copied.', 'block-table'],
  ]) {
    assert.ok(found(page, text).includes(id), text)
  }
})

test('no page leads to an entry twice', () => {
  const idOf = new Map(entries().flatMap(({ ids }) => ids.map((id) => [id, ids[0]])))
  let count = 0
  for (const page of pages().filter((page) => !/^source|glossary/.test(page))) {
    const text = fs.readFileSync(path.join(out, page), 'utf8')
    const ids = [...text.matchAll(/glossary\.html#([^"]*)" class="term"/g)].map((match) => idOf.get(match[1]))
    count += ids.length
    assert.deepEqual(ids.filter((id, i) => ids.indexOf(id) < i), [], page)
  }
  assert.ok(count > 500, `only ${count} terms were seen`)
})

test('the search has the field\'s words for every lesson, and for no page that is gone', () => {
  const names = chapters.map(({ link }) => link.slice(1).replace(/\.html$/, ''))
  assert.deepEqual(Object.keys(fieldWords).filter((name) => !names.includes(name)), [])
  assert.deepEqual(chapters.filter(({ link, minutes }) => minutes && !fieldWords[link.slice(1)]), [])
})
