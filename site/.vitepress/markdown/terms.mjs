// The first time that a section uses a term of the glossary, the word leads to its entry.
import { entries, everyday, matchers } from '../glossary.mjs'

const glossary = '/docs/glossary.html'

function open(Token, id) {
  const token = new Token('link_open', 'a', 1)
  token.attrs = [['href', `${glossary}#${id}`], ['class', 'term']]
  return token
}

/** [before, link, word, link, after] for the first match; the rest is searched again. */
function split(Token, text, finders, seen) {
  let first
  for (const { id, pattern } of finders) {
    if (seen.has(id)) continue
    const found = pattern.exec(text)
    if (found && (!first || found.index < first.found.index)) first = { id, found }
  }
  const plain = (content) => Object.assign(new Token('text', '', 0), { content })
  if (!first) return [plain(text)]
  const { id, found } = first
  const end = found.index + found[0].length
  seen.add(id)
  const word = [open(Token, id), plain(found[0]), new Token('link_close', 'a', -1)]
  return [plain(text.slice(0, found.index)), ...word, ...split(Token, text.slice(end), finders, seen)]
}

/** The entry of these words, in the singular or the plural. */
function idOf(words, names) {
  const name = words.toLowerCase()
  return names.get(name) ?? names.get(name.replace(/s$/, '')) ?? names.get(name.replace(/es$/, ''))
}

/** A link to the glossary is a term, too: to the entry of its own words, if it names none. */
function isTermLink(token, words, names) {
  const [page, anchor] = (token.attrGet('href') ?? '').split('#')
  if (page !== glossary) return
  const id = anchor ?? idOf(words, names)
  if (!id) return
  token.attrSet('href', `${glossary}#${id}`)
  token.attrSet('class', 'term')
  return id
}

export function terms(md) {
  const all = entries()
  const finders = matchers(all)
  const names = new Map(all.flatMap(({ ids, names }) => names.map((name, i) => [name.toLowerCase(), ids[i] ?? ids[0]])))

  md.core.ruler.after('site_links', 'site_terms', (state) => {
    const inGlossary = state.env.relativePath === 'docs/glossary.md'
    let seen = new Set()
    let skip = false
    for (const token of state.tokens) {
      if (token.type === 'heading_open' && token.tag === 'h2') seen = new Set([...seen].filter((id) => everyday.has(id)))
      if (token.type === 'heading_open' || token.type === 'th_open') skip = true
      if (token.type === 'heading_close' || token.type === 'th_close') skip = false
      if (token.type !== 'inline' || skip) continue
      let depth = 0
      let italic = false
      token.children = token.children.flatMap((child, i, children) => {
        if (child.type === 'link_open') {
          depth++
          const id = isTermLink(child, children[i + 1].content, names)
          if (id) seen.add(id)
        }
        if (child.type === 'link_close') depth--
        if (/^em_/.test(child.type)) italic = child.type === 'em_open'
        if (child.type !== 'text' || depth) return [child]
        if (!inGlossary) return split(state.Token, child.content, finders, seen)
        const id = italic && idOf(child.content, names)
        return id ? [open(state.Token, id), child, new state.Token('link_close', 'a', -1)] : [child]
      })
    }
  })
}
