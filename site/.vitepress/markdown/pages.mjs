// Where a lesson says `./course viz N`, the visualizer itself; the picture that follows is shown until it starts.
const html = (state, content) => Object.assign(new state.Token('html_block', '', 0), { content, block: true })

export function visualizer(md) {
  md.core.ruler.push('site_visualizer', (state) => {
    const number = state.env.relativePath?.match(/^lessons\/(\d\d)_[^/]*\/index\.md$/)?.[1]
    const { tokens } = state
    if (!number) return
    const command = tokens.findIndex((token) => token.type === 'fence' && token.content.trim() === `./course viz ${Number(number)}`)
    if (command < 0) throw new Error(`${state.env.path}: no code block with ./course viz ${Number(number)} alone, wanted after the idea`)
    const picture = tokens.slice(command + 1, command + 4) // a paragraph: its beginning, what is in it, its end
    if (picture[1]?.children?.[0].type !== 'image') throw new Error(`${state.env.path}: no picture after ./course viz ${Number(number)}`)
    tokens.splice(command + 1, 3, html(state, `<VisualizerPage page="${number}">\n`), ...picture, html(state, '</VisualizerPage>\n'))
  })

  md.core.ruler.push('site_glossary', (state) => {
    const heading = state.tokens.findIndex((token) => token.type === 'heading_close')
    if (state.env.relativePath === 'docs/glossary.md') state.tokens.splice(heading + 1, 0, html(state, '<GlossaryFind />\n'))
  })

  // The marks for the repository's own checks (quote, output, number, from) are nothing for a reader.
  md.core.ruler.push('site_comments', (state) => {
    const strip = (text) => text.replace(/<!--.*?-->\n?/gs, '')
    for (const token of state.tokens) {
      if (token.type === 'html_block') token.content = strip(token.content)
      for (const child of token.children ?? []) if (child.type === 'html_inline') child.content = strip(child.content)
    }
  })
}
