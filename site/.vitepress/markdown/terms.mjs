// The first time that a page uses a term of the glossary, the word leads to its entry.
import { entries, finder } from '../glossary.mjs'

const glossary = '/docs/glossary.html'

function open(Token, id) {
  const token = new Token('link_open', 'a', 1)
  token.attrs = [['href', `${glossary}#${id}`], ['class', 'term']]
  return token
}

/** The text as tokens, with a link around each term that is not in `seen`. */
function linked(Token, text, { terms, pattern }, seen) {
  const plain = (content) => Object.assign(new Token('text', '', 0), { content })
  const tokens = []
  let end = 0
  for (const match of text.matchAll(pattern)) {
    const [word, ...groups] = match
    const { id, entry } = terms[groups.findIndex((group) => group !== undefined)]
    if (seen.has(entry)) continue
    seen.add(entry)
    tokens.push(plain(text.slice(end, match.index)), open(Token, id), plain(word), new Token('link_close', 'a', -1))
    end = match.index + word.length
  }
  return [...tokens, plain(text.slice(end))]
}

/** The entry of these words, in the singular or the plural. */
function idOf(words, names) {
  const name = words.toLowerCase()
  return names.get(name) ?? names.get(name.replace(/s$/, '')) ?? names.get(name.replace(/es$/, ''))
}

/** A link to the glossary is a term, too: to the entry of its own words, if it names none. */
function asTerm(token, words, names) {
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
  const entryOf = new Map(all.flatMap(({ ids }) => ids.map((id) => [id, ids[0]])))
  const names = new Map(all.flatMap(({ ids, names }) => names.map((name, i) => [name.toLowerCase(), ids[i] ?? ids[0]])))

  md.core.ruler.after('site_links', 'site_terms', (state) => {
    const inGlossary = state.env.relativePath === 'docs/glossary.md'
    const found = finder(state.env.relativePath ?? '', all)
    // Links of the text come first: a term with one has no other.
    const inText = state.tokens.flatMap(({ children }) => children ?? [])
    const linkedByText = inText.map((token, i) => token.type === 'link_open' && asTerm(token, inText[i + 1].content, names))
    const seen = new Set(linkedByText.map((id) => entryOf.get(id)))
    let skip = false
    for (const token of state.tokens) {
      if (token.type === 'heading_open' || token.type === 'th_open') skip = true
      if (token.type === 'heading_close' || token.type === 'th_close') skip = false
      if (token.type !== 'inline' || skip) continue
      let depth = 0
      let italic = false
      token.children = token.children.flatMap((child) => {
        if (child.type === 'link_open') depth++
        if (child.type === 'link_close') depth--
        if (/^em_/.test(child.type)) italic = child.type === 'em_open'
        if (child.type !== 'text' || depth) return [child]
        if (!inGlossary) return linked(state.Token, child.content, found, seen)
        const id = italic && idOf(child.content, names)
        return id ? [open(state.Token, id), child, new state.Token('link_close', 'a', -1)] : [child]
      })
    }
  })
}
