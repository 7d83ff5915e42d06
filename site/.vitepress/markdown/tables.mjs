// On a phone a row of a wide table is a card, and each cell has the heading of its column above it. And the glossary's
// table is a list of headings and meanings: a heading is what the search finds, with what follows it.
import { entries } from '../glossary.mjs'

/** The tables of a text, as [index of table_open, index of table_close]. */
function tables(tokens) {
  const opens = tokens.flatMap((token, i) => (token.type === 'table_open' ? [i] : []))
  return opens.map((from) => [from, tokens.findIndex((token, i) => i > from && token.type === 'table_close')])
}

/** What fits no phone side by side: three columns, of which one has sentences. */
function label(table) {
  const texts = (type) => table.flatMap((token, i) => (token.type === type ? [table[i + 1].content] : []))
  const headings = texts('th_open')
  if (headings.length < 3 || !texts('td_open').some((text) => text.length > 24)) return
  const cells = table.filter(({ type }) => type === 'td_open')
  cells.forEach((cell, i) => cell.attrSet('data-label', headings[i % headings.length].replace(/[`*]/g, '')))
}

/** A heading for each term, with the addresses of its other names in the paragraph that follows. */
function glossary(Token, table) {
  const inlines = table.filter(({ type }, i) => type === 'inline' && table[i - 1].type === 'td_open')
  const wrapped = (type, tag, content) => [new Token(`${type}_open`, tag, 1), content, new Token(`${type}_close`, tag, -1)].map((token) => Object.assign(token, { block: true }))
  const html = (content) => Object.assign(new Token('html_block', '', 0), { content, block: true })
  const rows = entries().flatMap(({ ids, names }, i) => {
    const [name, meaning] = inlines.slice(2 * i, 2 * i + 2)
    name.content = names.join(', ')
    name.children = [Object.assign(new Token('text', '', 0), { content: name.content })]
    const anchors = ids.slice(1).map((id) => Object.assign(new Token('html_inline', '', 0), { content: `<a id="${id}"></a>` }))
    meaning.children.unshift(...anchors)
    const heading = wrapped('heading', 'h2', name)
    heading[0].attrSet('id', ids[0])
    return [...heading, ...wrapped('paragraph', 'p', meaning)]
  })
  return [html('<div class="terms">\n'), ...rows, html('</div>\n')]
}

export function tablesAndTerms(md) {
  // Before headings get their anchors.
  md.core.ruler.before('anchor', 'site_tables', (state) => {
    const inGlossary = state.env.relativePath === 'docs/glossary.md'
    for (const [from, to] of tables(state.tokens)) {
      const table = state.tokens.slice(from, to + 1)
      if (inGlossary) state.tokens.splice(from, table.length, ...glossary(state.Token, table))
      else label(table)
    }
  })
}
