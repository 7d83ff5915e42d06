// Questions that take an answer before they show theirs: a lesson's predictions, and the folded questions at its end.
// And the steps of an exercise, to be ticked.
const html = (state, content) => Object.assign(new state.Token('html_block', '', 0), { content, block: true })

/** Puts `insert`, a map from an index to tokens, before the tokens with these indices. */
function inserted(tokens, insert) {
  return tokens.flatMap((token, i) => [...(insert.get(i) ?? []), token])
}

/** Under "Predict" the place of the folded answer takes the reader's; under "Questions" that place is in the fold. */
function questions(state) {
  const out = []
  let section = ''
  let n = 0
  state.tokens.forEach((token, i) => {
    if (token.type === 'heading_open') [section, n] = [state.tokens[i + 1].content, 0]
    const begins = token.type === 'html_block' && token.content.startsWith('<details>')
    const ends = token.type === 'html_block' && token.content.startsWith('</details>')
    if (!/^(Predict|Questions)$/.test(section) || !(begins || ends)) return out.push(token)
    const name = `${section === 'Predict' ? 'prediction' : 'question'}-${n += begins ? 1 : 0}`
    if (begins) out.push(...(section === 'Predict' ? [] : [token]), html(state, `<OwnAnswer name="${name}" />\n<Resolution name="${name}">\n`))
    if (ends) out.push(html(state, '</Resolution>\n'), ...(section === 'Predict' ? [] : [token]))
  })
  state.tokens = out
}

function steps(state) {
  if (!/\/exercise\//.test(state.env.relativePath ?? '')) return
  const insert = new Map()
  let open = null
  state.tokens.forEach((token, i) => {
    if (token.type !== 'heading_open' || token.tag !== 'h2') return
    if (open) insert.set(i, [html(state, `<StepMark :number="${open}" />\n`)])
    open = state.tokens[i + 1].content.match(/^(\d+)\. /)?.[1]
  })
  state.tokens = inserted(state.tokens, insert)
  if (open) state.tokens.push(html(state, `<StepMark :number="${open}" />\n`))
}

export function ownAnswers(md) {
  md.core.ruler.push('site_questions', (state) => {
    questions(state)
    steps(state)
  })
}
