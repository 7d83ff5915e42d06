// Questions that take an answer before they show theirs: the predictions of a lesson, which its text resolves
// further down, and the folded questions at its end. And the steps of an exercise, to be ticked.
const isPredict = /^Predict before you run$/
const resolves = /^(The answers to the predictions|The predictions)\b.*:$/

const html = (state, content) => Object.assign(new state.Token('html_block', '', 0), { content, block: true })

/** The items of the list that begins at `from`, as [index of its <li>, index of its </li>]. */
function items(tokens, from) {
  const list = tokens[from]
  const found = []
  for (let i = from + 1; tokens[i].type !== 'ordered_list_close' || tokens[i].level !== list.level; ++i) {
    if (tokens[i].level !== list.level + 1) continue
    if (tokens[i].type === 'list_item_open') found.push([i])
    if (tokens[i].type === 'list_item_close') found.at(-1).push(i)
  }
  return found
}

/** The ordered list that follows tokens[at], with nothing but other text and comments before it. */
function listAfter(tokens, at) {
  const from = tokens.findIndex((token, i) => i > at && (token.type === 'ordered_list_open' || token.type === 'heading_open'))
  return from >= 0 && tokens[from].type === 'ordered_list_open' ? items(tokens, from) : []
}

function heading(tokens, pattern) {
  return tokens.findIndex((token, i) => token.type === 'inline' && tokens[i - 1]?.type === 'heading_open' && pattern.test(token.content))
}

/** Puts `insert`, a map from an index to tokens, before the tokens with these indices. */
function inserted(tokens, insert) {
  return tokens.flatMap((token, i) => [...(insert.get(i) ?? []), token])
}

function predictions(state) {
  const { tokens } = state
  const asked = heading(tokens, isPredict)
  if (asked < 0) return
  const resolution = tokens.findIndex((token, i) => i > asked && token.type === 'inline' && resolves.test(token.content))
  const [questions, answers] = [listAfter(tokens, asked), resolution < 0 ? [] : listAfter(tokens, resolution)]
  if (!questions.length || questions.length !== answers.length) {
    throw new Error(`${state.env.path}: ${questions.length} predictions, and ${answers.length} answers to them`)
  }
  const insert = new Map()
  questions.forEach(([, end], i) => insert.set(end, [html(state, `<OwnAnswer name="prediction-${i + 1}" resolved="below" />\n`)]))
  answers.forEach(([begin, end], i) => {
    insert.set(begin + 1, [html(state, `<Resolution name="prediction-${i + 1}" question="above">\n`)])
    insert.set(end, [html(state, '</Resolution>\n')])
  })
  state.tokens = inserted(tokens, insert)
}

function foldedQuestions(state) {
  const insert = new Map()
  const from = heading(state.tokens, /^Questions$/)
  if (from < 0) return
  let n = 0
  state.tokens.forEach((token, i) => {
    if (i < from || token.type !== 'html_block') return
    const name = `question-${n + (token.content.startsWith('<details>') ? 1 : 0)}`
    if (token.content.startsWith('<details>')) {
      ++n
      insert.set(i + 1, [html(state, `<OwnAnswer name="${name}" />\n<Resolution name="${name}">\n`)])
    }
    if (token.content.startsWith('</details>')) insert.set(i, [...(insert.get(i) ?? []), html(state, '</Resolution>\n')])
  })
  state.tokens = inserted(state.tokens, insert)
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

export function questions(md) {
  md.core.ruler.push('site_questions', (state) => {
    predictions(state)
    foldedQuestions(state)
    steps(state)
  })
}
