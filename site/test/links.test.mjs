// Every link, picture and anchor of the built site leads somewhere.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { base, chapters, out, pages } from './site.mjs'

const texts = new Map(pages().map((page) => [page, fs.readFileSync(path.join(out, page), 'utf8')]))
const unescaped = (text) => text.replace(/&amp;/g, '&').replace(/&quot;/g, '"').replace(/&#39;/g, "'")
const values = (text, name) => [...text.matchAll(new RegExp(`<[^>]*?\\s${name}="([^"]*)"`, 'g'))].map((match) => unescaped(match[1]))
const ids = new Map([...texts].map(([page, text]) => [page, new Set([...values(text, 'id'), ...values(text, 'name')])]))
const isElsewhere = (url) => /^(https?|data|mailto):/.test(url)

/** Why a link of a page leads nowhere; nothing if it leads somewhere. */
function wrong(page, url) {
  const { pathname, hash } = new URL(url, `http://site${base}${page}`)
  if (!pathname.startsWith(base)) return 'is outside the site'
  let file = decodeURIComponent(pathname.slice(base.length))
  if (file === '' || file.endsWith('/')) file += 'index.html'
  if (!fs.existsSync(path.join(out, file))) return 'leads nowhere'
  if (hash && ids.has(file) && !ids.get(file).has(decodeURIComponent(hash.slice(1)))) return 'has an anchor that is not there'
}

test('every link and every picture leads somewhere', () => {
  let count = 0
  const found = [...texts].flatMap(([page, text]) =>
    [...values(text, 'href'), ...values(text, 'src')].filter((url) => !isElsewhere(url)).flatMap((url) => {
      ++count
      const why = wrong(page, url)
      return why ? [`${page}: ${url} ${why}`] : []
    }))
  assert.deepEqual([...new Set(found)], [])
  assert.ok(count > 100 * chapters.length, `only ${count} links were seen`)
})

test('every picture says what it shows', () => {
  for (const [page, text] of texts) assert.ok(!/<img(?![^>]*\salt="[^"]+")/.test(text), `${page}: a picture without words`)
})

test('the chapters follow each other', () => {
  const next = (link) => values(texts.get(path.posix.join(link.slice(1), link.endsWith('.html') ? '' : 'index.html')) ?? '', 'href')
  chapters.slice(1).forEach(({ link }, i) => {
    assert.ok(next(chapters[i].link).includes(base + link.slice(1)), `${chapters[i].link} does not lead to ${link}`)
  })
  assert.ok(chapters.length >= 27)
})

test("the repository's own marks do not show", () => {
  for (const [page, text] of texts) {
    if (page.startsWith('source/')) continue
    assert.ok(!/<!--\s*(quote|output|number|measured|end of measured)\b/.test(text), page)
    assert.ok(!/(?:&lt;|<)(OwnAnswer|Resolution|StepMark|VisualizerPage)\b/i.test(text), page)
  }
})
