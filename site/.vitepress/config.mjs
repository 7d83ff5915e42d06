// The course as a web site: VitePress reads the texts where they are, and nothing is written twice.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { chapters, films, front, groups, lessonGroups, root } from './chapters.mjs'
import { entries } from './glossary.mjs'
import { code } from './markdown/code.mjs'
import { links, size } from './markdown/links.mjs'
import { visualizer } from './markdown/pages.mjs'
import { ownAnswers } from './markdown/questions.mjs'
import { tablesAndTerms } from './markdown/tables.mjs'
import { terms } from './markdown/terms.mjs'
import { searched, searchOptions } from './search.mjs'

const base = process.env.SITE_BASE ?? '/'
const hasVisualizer = process.env.SITE_VISUALIZER === '1'
// Where the code of this copy is: known to a workflow of GitHub, else not.
const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env
const source = repository ? `${server}/${repository}` : ''
const out = process.env.SITE_OUT ?? path.join(root, 'build/site')

// Anchors as GitHub makes them, so that a link works in both places.
const slugify = (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-')

// The texts stand outside this folder, and what they import stands in it.
const importsFromHere = {
  name: 'imports-from-here',
  enforce: 'pre',
  resolveId(id) {
    if (/^vue(\/|$)/.test(id)) return this.resolve(id, fileURLToPath(import.meta.url), { skipSelf: true })
  },
}

/** As the sidebar shows them: what belongs to a lesson stands below it. */
function nested(chapters) {
  const items = []
  for (const { link, text, part } of chapters) {
    if (part) (items.at(-1).items ??= []).push({ link, text })
    else items.push({ link, text })
  }
  return items
}

/** A lesson leads to the next lesson, as do its GPU page and its exercise, which stand beside it. */
function neighbours(link) {
  const lessons = chapters.filter(({ minutes }) => minutes)
  const at = lessons.findIndex((lesson) => link.startsWith(lesson.link))
  if (at < 0) return {}
  const isLesson = lessons[at].link === link
  const names = (chapter) => chapter && { text: chapter.text, link: chapter.link }
  return { prev: names(isLesson ? lessons[at - 1] : lessons[at]) ?? names(chapters[0]), next: names(lessons[at + 1]) }
}

/** The first term of each letter of the glossary. */
function letters() {
  const first = new Map()
  for (const { ids, names } of entries()) {
    const letter = names[0][0].toUpperCase()
    if (!first.has(letter)) first.set(letter, ids[0])
  }
  return [...first].map(([letter, id]) => ({ letter, id }))
}

const icon = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#3451b2"/>' +
    '<path d="M3 3h4v4H3zM9 9h4v4H9z" fill="#fff"/><path d="M9 3h4v4H9zM3 9h4v4H3z" fill="#fff" opacity=".4"/></svg>',
)}`

export default defineConfig({
  title: 'Page by Page',
  description: 'A course that builds the KV cache of an LLM server, lesson by lesson, in C++20 and CUDA',
  lang: 'en',
  base,
  head: [['link', { rel: 'icon', href: icon }]],
  srcDir: root,
  srcExclude: ['build/**', 'out/**', 'shared/**', 'tests/**', 'tools/**', 'site/node_modules/**'],
  outDir: out,
  cacheDir: path.join(path.dirname(out), path.basename(out) + '.cache'),
  rewrites: (file) =>
    file.replace(/^README\.md$/, 'readme.md').replace(/^site\/front\.md$/, 'index.md').replace(/^site\/source\//, 'source/').replace(/\/README\.md$/, '/index.md'),
  transformPageData(page) {
    const { prev, next } = neighbours('/' + page.relativePath.replace(/index\.md$/, ''))
    if (prev) Object.assign(page.frontmatter, { prev, next })
    if (page.relativePath === 'docs/glossary.md') page.frontmatter.outline = false // its letters are one
  },
  router: { prefetchLinks: false },
  vite: {
    publicDir: false,
    define: { __VISUALIZER__: JSON.stringify(hasVisualizer), __SOURCE__: JSON.stringify(source) },
    plugins: [importsFromHere],
    build: { chunkSizeWarningLimit: 2000 },
  },
  vue: { template: { transformAssetUrls: false } }, // pictures keep their names: docs/figures is copied as it is
  markdown: {
    anchor: { slugify },
    attrs: { disable: true }, // braces are C++ here
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config(md) {
      links(md, base)
      terms(md)
      tablesAndTerms(md)
      visualizer(md)
      ownAnswers(md)
      code(md)
    },
  },
  themeConfig: {
    chapters: chapters.map(({ file, ...chapter }) => chapter),
    front,
    letters: letters(),
    films: Object.fromEntries(Object.entries(films).map(([number, src]) => [number, src && { src, ...size(path.join(root, src)) }])),
    sidebar: groups.map(({ text, chapters }) => ({ text, items: nested(chapters) })),
    lessonGroups: lessonGroups.map(({ text, chapters }) => ({ text, links: chapters.filter(({ minutes }) => minutes).map(({ link }) => link) })),
    nav: [
      { text: 'Lessons', items: lessonGroups.map(({ text, chapters }) => ({ text, items: nested(chapters).map(({ link, text }) => ({ link, text })) })) },
      { text: 'Glossary', link: '/docs/glossary.html' },
      { text: 'Map to vLLM', link: '/docs/vllm-map.html' },
      ...(hasVisualizer ? [{ text: 'Run all 14 in the browser', link: '/viz/ladder.html', target: '_self' }] : []),
    ],
    outline: [2, 3],
    notFound: { title: 'There is no such page', quote: 'The menu has the chapters, and the search finds words in them.', linkText: 'To the first page', linkLabel: 'To the first page' },
    search: {
      provider: 'local',
      options: {
        _render: searched,
        detailedView: true,
        miniSearch: { searchOptions },
      },
    },
  },
})
