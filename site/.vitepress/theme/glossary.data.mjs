// The glossary's meanings as HTML, by id. Loaded when the first term is pointed at.
import { createMarkdownRenderer } from 'vitepress'
import { root } from '../chapters.mjs'
import { entries } from '../glossary.mjs'

export default {
  watch: ['../../../docs/glossary.md'],
  async load() {
    const md = await createMarkdownRenderer(root)
    const text = (meaning) => md.renderInline(meaning, { path: `${root}/docs/glossary.md`, relativePath: 'docs/glossary.md' })
    return Object.fromEntries(
      entries().flatMap(({ ids, names, meaning }) =>
        ids.map((id) => [id, `<strong>${names.join(', ')}</strong>: ${text(meaning).replace(/<\/?a\b[^>]*>/g, '')}`]),
      ),
    )
  },
}
