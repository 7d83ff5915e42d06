// The entries of docs/glossary.md, and the words in a text that are looked up in it.
import fs from 'node:fs'
import path from 'node:path'
import { root } from './chapters.mjs'

const entryLine = /^\| ((?:<a id="[^"]+"><\/a>)+)\*\*(.+?)\*\* \| (.*) \|$/gm

/** [{ids, names, meaning}]; a meaning is Markdown. */
export function entries() {
  const text = fs.readFileSync(path.join(root, 'docs/glossary.md'), 'utf8')
  return [...text.matchAll(entryLine)].map(([, anchors, names, meaning]) => ({
    ids: [...anchors.matchAll(/id="([^"]+)"/g)].map((match) => match[1]),
    names: names.split(', '),
    meaning,
  }))
}

const eitherCase = (word) => word.replace(/^[a-z]/, (letter) => `[${letter}${letter.toUpperCase()}]`)
const after = (...words) => `(?<=\\b(?:${words.map(eitherCase).join('|')}) )`

// Everyday words, too: as terms they are found only where what stands before them says so.
const before = {
  block: '(?<!thread )',
  floor: after('of the', 'its'),
  grid: after('the', 'whole', "kernel's"),
  head: after('query', 'KV', 'key-value'),
  pass: after(...'a an the each every one this per whole next first second last forward same another \\d+'.split(' ')),
  promise: after('the', 'one'),
  seed: after('own', "request's", 'the same'),
  store: after('a', 'the'),
  stream: after('a', 'the', 'CUDA', "model's"),
  touch: after('a', 'that'),
  twin: after('CPU', 'CUDA'),
  waste: after('the', 'KV'),
}
// The pages on which a word is the term.
const onlyOn = {
  cluster: /gpu|kernels/,
  event: /07_|instruments\/index/,
  offset: /0[348]_/,
  sample: /0[569]_|decisions|equal-bits/,
  scale: /14_|kernels|vllm-map/,
  store: /13_|14_|decisions|route|serve\//,
  trace: /07_\w+\/index|instruments/,
}
// The pages on which it means something else.
const notOn = {
  batch: /07_|11_|instruments|proof/,
  block: /adding-a-lesson/,
  chunk: /01_|13_|kernels\/road/,
  decode: /14_\w+\/exercise/,
  digest: /1[23]_|vllm-map/,
  fork: /using/,
  guess: /07_|13_/,
  lane: /adding-a-lesson/,
  pass: /road|simt/,
  slot: /11_|13_|kernels/,
  stream: /04_|route|serve\//,
  victim: /06_/,
}
// Words that mean other things in most places.
const never = new Set(['group', 'mask', 'pair', 'piece', 'tile', 'running', 'waiting', 'index'])

const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
/** Names with small letters may begin a sentence; BPE and SM are written in one way only. */
const spelled = (name) => eitherCase(/^[a-z]/.test(name) ? escaped(name).replace(/[ -]/g, '[ -]') : escaped(name))
/** What finds terms on a page: a term's place in `terms` is that of its group in `pattern`. The longest names are tried
 *  first, so that "block table" is not a block; a word in a path is no use of it. */
export function finder(page, all = entries()) {
  const isMeant = ({ name }) => !never.has(name) && (onlyOn[name]?.test(page) ?? true) && !notOn[name]?.test(page)
  const terms = all
    .flatMap(({ ids, names }) => names.map((name, i) => ({ name, id: ids[i] ?? ids[0], entry: ids[0] })))
    .filter(isMeant)
    .sort((a, b) => b.name.length - a.name.length)
  const either = terms.map(({ name }) => `(${before[name] ?? ''}${spelled(name)})`).join('|')
  return { terms, pattern: new RegExp(`(?<![\\w/-])(?:${either})(?:s|es)?(?![\\w/-])`, 'g') }
}
