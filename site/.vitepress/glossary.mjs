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

// Everyday words, too: as terms they are found only where what stands before them says so.
const onlyAfter = {
  floor: '(?:of the|its) ',
  head: '(?:query|KV|key-value) ',
  pass: '(?:a|an|the|each|every|one|this|per|whole|next|first|second|last|forward|same|another|\\d+) ',
  register: '(?:a|the|of|in) ',
  touch: '(?:a|that) ',
  stream: '(?:a|the|CUDA|model\'s) ',
}
// Words that mean other things in most places.
const never = new Set(['group', 'mask', 'pair', 'tile', 'rank', 'running', 'waiting', 'position', 'index'])

// Once in a page is enough for what every paragraph names.
export const everyday = new Set(['attention', 'batch', 'block', 'kernel', 'pass', 'slot', 'token'])

const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
/** Names with small letters may begin a sentence; BPE and SM are written in one way only. */
const spelled = (name) =>
  /^[a-z]/.test(name) ? `[${name[0]}${name[0].toUpperCase()}]${escaped(name.slice(1)).replace(/[ -]/g, '[ -]')}` : escaped(name)

/** Finds terms: [{pattern, id}], the longest names first, so that "block table" is not a block. */
export function matchers(all = entries()) {
  return all
    .flatMap(({ ids, names }) => names.map((name, i) => ({ name, id: ids[i] ?? ids[0] })))
    .filter(({ name }) => !never.has(name))
    .sort((a, b) => b.name.length - a.name.length)
    .map(({ name, id }) => ({
      id,
      pattern: new RegExp(`(?<![\\w-])${onlyAfter[name] ? `(?<=\\b${onlyAfter[name]})` : ''}${spelled(name)}(?:s|es)?(?![\\w-])`),
    }))
}
